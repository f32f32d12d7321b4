"""Names that options can have, for whoever needs them without torch: the command line, readers of certificates."""

BUILTIN, FACTORY, MODULE = "built-in", "factory", "module"  # how a network reached us
TOYS = ("moons", "circles", "spirals")  # two classes in the plane
# Data that may be loaded because a certificate says so: they read known files or generate, nothing else.
SAFE_SOURCES = ("digits", "mnist1d", *TOYS, "mnist", "fashion-mnist", "cifar-10")
MADE_HERE = ("digits", "mnist1d", *TOYS)  # of these, those that need no file
CPU, CUDA, AUTO = "cpu", "cuda", "auto"
DEVICES = (AUTO, CPU, CUDA)
OBJECTIVES = ("tempered", "quadratic", "lambda", "kl")  # of a posterior's training: see ``pacbayes.objectives``
LOGITS, PROBABILITIES = "logits", "probabilities"  # what one output per example is
OUTPUTS = (LOGITS, PROBABILITIES)
