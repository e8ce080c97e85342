/* Makes a file system look as if it had no locks (ODD=locks) or no shared memory (ODD=memory).
   cc -shared -fPIC -o odd.so odd_file_system.c -ldl; then LD_PRELOAD=odd.so PROGRAM */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

static int lacks(char what) {
    const char *odd = getenv("ODD");
    return odd && odd[0] == what;
}

static int lock(const char *name, int fd, int command, void *argument) {
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    if ((command == F_SETLK || command == F_GETLK || command == F_SETLKW) && lacks('l')) {
        errno = ENOLCK;
        return -1;
    }
    return real(fd, command, argument);
}

#define LOCK(name)                            \
    int name(int fd, int command, ...) {      \
        va_list list;                         \
        va_start(list, command);              \
        void *argument = va_arg(list, void *); \
        va_end(list);                         \
        return lock(#name, fd, command, argument); \
    }
LOCK(fcntl)
LOCK(fcntl64)

#define MAP(name)                                                                         \
    void *name(void *at, size_t size, int access, int flags, int fd, off_t offset) {      \
        void *(*real)(void *, size_t, int, int, int, off_t) =                             \
            (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, #name);     \
        if (fd >= 0 && (flags & MAP_SHARED) && (access & PROT_WRITE) && lacks('m')) {     \
            errno = ENODEV;                                                               \
            return MAP_FAILED;                                                            \
        }                                                                                 \
        return real(at, size, access, flags, fd, offset);                                 \
    }
MAP(mmap)
MAP(mmap64)
