"""Counts the events of traces with etl-parser, and sums their time stamps; prints them as JSON.

It leaves out what stands in a file's first buffer, which it takes for the header alone.
"""

import json
import pathlib
import sys
import uuid

from etl.etl import IEtlFileObserver, build_from_stream


class Events(IEtlFileObserver):
    """By what an event is: how often it is there, and the sum of its time stamps."""

    def __init__(self):
        self.events = {}

    def add(self, name, time):
        count, times = self.events.get(name, (0, 0))
        self.events[name] = (count + 1, times + time)

    def on_system_trace(self, event):
        header = event.source.system_header
        self.add(f"{int(header.header.group)}/{header.header.type}", header.system_time)

    def on_perfinfo_trace(self, event):
        header = event.source.header
        self.add(f"{int(header.group)}/{header.type}", event.get_timestamp())

    def on_event_record(self, event):
        header = event.source.event_header
        guid = header.provider_id.inner
        data = guid.data4
        fields = (guid.data1, guid.data2, guid.data3, data[0], data[1], int.from_bytes(data[2:], "big"))
        self.add(f"{uuid.UUID(fields=fields)} {header.event_descriptor.Id}", event.get_timestamp())

    def on_trace_record(self, event):
        """Classic events: etl-parser does not read their time stamps."""

    def on_win_trace(self, event):
        raise NotImplementedError("no file has one")


def events(path):
    observer = Events()
    build_from_stream(pathlib.Path(path).read_bytes()).parse(observer)
    return observer.events


json.dump({path: events(path) for path in sys.argv[1:]}, sys.stdout)
