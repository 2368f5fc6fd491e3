"""Settings as the native core wants them."""

from pyx cimport core


cdef class Settings:
    """Owns a core.config made from {name: text}."""

    def __cinit__(self, options):
        if core.config_create(&self.config):
            raise MemoryError()
        for name, value in options.items():
            self.set(name, str(value))

    def __dealloc__(self):
        core.config_destroy(self.config)

    cdef set(self, str name, str value):
        if core.config_set(self.config, name.encode(), value.encode()):
            raise MemoryError()

    cdef fill(self, const core.knob *knobs):
        if core.config_fill(self.config, knobs):
            raise MemoryError()
