"""The lesson of `norm-capacity`."""

from truerisk.lab.lesson import Lesson

LESSON = Lesson(figures=lambda rows: [], hero="terms", findings=(), questions=())
