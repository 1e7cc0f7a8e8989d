"""The hand-written comparison: a FastAPI route that stores a message and its answer in a commit each.

It is as durable as ours: WAL and synchronous=FULL, one writer. It has no authentication, no routing and no streaming.
"""

import sqlite3
import sys
import threading

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Message(BaseModel):
    content: str


def app(path: str) -> FastAPI:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, session TEXT NOT NULL, body TEXT NOT NULL)")
    writing = threading.Lock()
    made = FastAPI()

    def insert(session: str, body: str) -> None:
        with writing:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO events (session, body) VALUES (?, ?)", (session, body))
            connection.execute("COMMIT")

    @made.post("/sessions/{session}/messages")
    def message(session: str, body: Message) -> dict[str, str]:
        answer = f"desk: {body.content}"
        insert(session, body.content)
        insert(session, answer)
        return {"text": answer}

    return made


if __name__ == "__main__":
    uvicorn.run(app(sys.argv[1]), port=int(sys.argv[2]), log_level="warning", access_log=False)
