"""The exercises: a module a lesson, with what is given, what is right, and what is asked for; a
job script has one of its own."""
