"""hung_fs: a file system with one program in it that stops answering when told: what a network file system is like
whose server has gone. Speaks the kernel's FUSE protocol itself (include/uapi/linux/fuse.h, 7.31); needs root.

    hung_fs.py MOUNT_POINT FILE     serves FILE as MOUNT_POINT/program; after SIGUSR1 it takes requests and never answers
"""
import ctypes
import errno
import os
import signal
import stat
import struct
import sys

IN_HEADER = struct.Struct("<IIQQIIII")
OUT_HEADER = struct.Struct("<IiQ")
ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 18, 25, 26, 27, 29, 36, 42)
ROOT, FILE = 1, 2
BUFFER = 1 << 20


class Server:
    def __init__(self, mount_point, path):
        with open(path, "rb") as file:
            self.content = file.read()
        self.hung = False
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=131072" % self.device
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"hung_fs", mount_point.encode(), b"fuse.hung_fs", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    def attributes(self, node):
        is_root = node == ROOT
        size = 0 if is_root else len(self.content)
        mode = stat.S_IFDIR | 0o755 if is_root else stat.S_IFREG | 0o755
        return ATTR.pack(node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 2 if is_root else 1, 0, 0, 0, 4096, 0)

    def reply(self, unique, data=b"", error=0):
        os.write(self.device, OUT_HEADER.pack(OUT_HEADER.size + len(data), -error, unique) + data)

    def answer(self, opcode, unique, node, body):
        if opcode == INIT:
            # max_write and the like as small as they may be; no feature is asked for.
            self.reply(unique, struct.pack("<IIIIHHIIHHIIII", 7, 31, 131072, 0, 12, 10, 131072, 1, 32, 0, 0, 0, 0, 0) + b"\0" * 16)
        elif opcode == LOOKUP and body.rstrip(b"\0") == b"program":
            self.reply(unique, struct.pack("<QQQQII", FILE, 0, 0, 0, 0, 0) + self.attributes(FILE))
        elif opcode == GETATTR:
            self.reply(unique, struct.pack("<QII", 0, 0, 0) + self.attributes(node))  # valid for no time: asked each time
        elif opcode in (OPEN, OPENDIR):
            self.reply(unique, struct.pack("<QII", 0, 0, 0))
        elif opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.reply(unique, self.content[offset:offset + size])
        elif opcode in (RELEASE, RELEASEDIR, FLUSH):
            self.reply(unique)
        elif opcode not in (FORGET, BATCH_FORGET, INTERRUPT):
            self.reply(unique, error=errno.ENOENT if opcode == LOOKUP else errno.ENOSYS)

    def serve(self):
        while True:
            try:
                request = os.read(self.device, BUFFER)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # ENODEV: unmounted
            if self.hung:
                continue
            _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
            try:
                self.answer(opcode, unique, node, request[IN_HEADER.size:])
            except OSError:
                pass  # an interrupted request is no longer waited for

    def hang(self, *_):
        self.hung = True
        print("hung", flush=True)


def main():
    server = Server(sys.argv[1], sys.argv[2])
    signal.signal(signal.SIGUSR1, server.hang)
    print("mounted", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
