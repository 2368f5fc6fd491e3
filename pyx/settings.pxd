from pyx cimport core

cdef class Settings:
    cdef core.config *config
    cdef set(self, str name, str value)
    cdef fill(self, const core.knob *knobs)
