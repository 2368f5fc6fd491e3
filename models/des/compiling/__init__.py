"""Turns the models' programs into code for the simulation engine in C: the same source that the SimPy engine runs.

A program is a generator function `program(world, thread, …)` made by def in a file or a notebook cell. It and all that it
calls may use

- assignment to names, fields of Records and list[i] (also += and the like, and unpacking), if, while, for over range(…),
  fifo.drain() and lists of Records, break, continue, return, pass, assert (not checked), yield and yield from;
- numbers, comparisons, and, or, not, if else, min, max, int, float, bool, len, abs, + - * / // %;
- functions made by def and methods of Records, without recursion; what models.des.records says of World, Thread, Fifo and
  Distribution.

A name has one type throughout a function. Texts, module-level names, attributes of frozen dataclasses and of modules are
constants: the way that such a condition rules out is not compiled. All records are made while the model is built.

types, sources, statics and code hold what is known of values, functions, constants and instructions; frames, expressions,
intrinsics, calls, assignments and statements translate, each on top of the one before; functions, linking and program put
it together.
"""
