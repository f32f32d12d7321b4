"""The pages of the experiments, one file each: finding, figures, pictures of data, questions for a class."""
