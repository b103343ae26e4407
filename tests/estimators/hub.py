"""A server with the parts of the Hugging Face Hub's API that pushing and loading a model needs."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COMMIT = "0123456789" * 4


class Hub(BaseHTTPRequestHandler):
    """Stores the files of a commit, text inline and binaries uploaded before it (LFS), in ``server.files``."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *message):
        pass

    def answer(self, content, kind="application/json", **headers):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Content-Length": len(content), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def do_POST(self):
        path, body = urlsplit(self.path).path, self.body()
        self.server.tokens.add(self.headers.get("Authorization"))
        if path == "/api/repos/create":
            given = json.loads(body)
            name = f"{given.get('organization', 'owner')}/{given['name']}"
            self.answer({"url": f"{self.server.url}/{name}", "name": name, "id": "1"})
        elif path.endswith("/preupload/main"):
            files = [
                {"path": f["path"], "uploadMode": "lfs" if f["path"].endswith("safetensors") else "regular",
                 "shouldIgnore": False, "oid": None}
                for f in json.loads(body)["files"]
            ]  # fmt: skip
            self.answer({"files": files, "commitOid": COMMIT})
        elif path.endswith("/objects/batch"):
            objects = json.loads(body)["objects"]
            for each in objects:
                each["actions"] = {"upload": {"href": f"{self.server.url}/lfs/{each['oid']}"}}
            self.answer({"transfer": "basic", "objects": objects})
        elif path.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.server.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    self.server.files[value["path"]] = self.server.large[value["oid"]]
            self.answer(
                {"success": True, "commitOid": COMMIT, "commitUrl": f"{self.server.url}/owner/tones/commit/{COMMIT}"}
            )
        else:  # validation of the card's header
            self.answer({"errors": [], "warnings": []})

    def do_PUT(self):
        body = self.body()
        self.server.large[hashlib.sha256(body).hexdigest()] = body
        self.answer({})

    def do_GET(self):
        path = urlsplit(self.path).path
        if path.startswith("/api/models/"):
            if "/tree/" in path:
                tree = [
                    {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                    for name, content in self.server.files.items()
                ]
                return self.answer(tree)
            siblings = [{"rfilename": name} for name in self.server.files]
            return self.answer({"id": "owner/tones", "sha": COMMIT, "siblings": siblings, "private": False})
        content = self.server.files.get(path.rpartition("/")[2])
        if content is None:
            return self.send_error(404)
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        return self.answer(content, "application/octet-stream", ETag=etag, X_Repo_Commit=COMMIT)

    do_HEAD = do_GET


@contextmanager
def hub(monkeypatch):
    """Yields a server that huggingface_hub uses within the block."""
    from huggingface_hub import constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.large, server.tokens = {}, {}, set()
    server.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
