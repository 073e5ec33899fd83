"""A terminal that can be driven: while a channel is attached, every key, paste and click goes into it.

Only the prefix key (for one key of ours) and F12 stay here. What the session prints is read from its
recording, as when it is watched; the channel's output only says that there is more to read. So the
history is whole, and nothing is shown twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from textual import events
from textual.message import Message

from cell.trials.sessions import Session
from hudtui.engine import Mouse
from hudtui.keys.typed import Typed
from hudtui.panes.selecting import SelectingPane
from hudtui.recordings.cast import Feed, Step
from hudtui.wire import Channel, Ending

_SOON = 0.008
"""Seconds between two looks at a recording that is told to grow."""


class ChannelFeed:
    """What a channel prints, for a shell of our own."""

    behind = False
    restarted = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Take more output."""
        self._pieces.append(data)

    def poll(self, limit: int) -> Iterator[Step]:
        """See `Feed`."""
        if self._pieces:
            data, self._pieces = b"".join(self._pieces), []
            yield Step("feed", data)


class DrivenPane(SelectingPane):
    """`drive` gives the keyboard to a channel, `release` takes it back."""

    prefix = "ctrl+right_square_bracket"
    scrolling = False

    obeys: Callable[[str], object] | None = None
    """Does what a key after the prefix means, before the next key is looked at."""

    class Released(Message):
        """The channel has ended, by itself or because we hung up."""

        def __init__(self, ending: Ending, *, asked: bool) -> None:
            super().__init__()
            self.ending, self.asked = ending, asked

    class KeysChanged(Message):
        """The program wants keys in another form: `flags` of the kitty protocol, 0 for the oldest."""

        def __init__(self, flags: int) -> None:
            super().__init__()
            self.flags = flags

    channel: Channel | None = None
    _key_flags = 0
    prefixed = False
    _own: ChannelFeed | None = None
    _asked = False
    _looked = 0.0
    _waking = False

    @property
    def captured(self) -> bool:
        """Whether keys go into the cell."""
        return self.channel is not None

    # ── a channel comes and goes ──────────────────────────────────────────────────────────────

    def drive(self, channel: Channel, session: Session, *, own: bool = False) -> None:
        """Give `channel` the keyboard; `own` is for a shell of ours, whose output it carries."""
        if self.channel is not None:
            self.workers.cancel_group(self, "channel")
            self.channel.close()
            self.channel = None
        self._own = ChannelFeed() if own else None
        if own or self.session is None or self.session.path != session.path:
            self.session = None
            self.watch_session(session)
        self.follow(True)
        while self.turn() and self._feed is not None and self._feed.behind:
            pass
        if self.engine is not None:
            self.engine.replies()  # to what was asked before we came
        self.channel, self.prefixed, self.scrolling, self._asked = channel, False, False, False
        self.run_worker(self._read(channel), exclusive=True, group="channel")
        self.post_message(self.Changed(self))

    async def _read(self, channel: Channel) -> None:
        while data := await channel.read():
            if self._own is not None:
                self._own.add(data)
            self._soon()
        ending = await channel.ended()
        if self.channel is channel:
            self._over(ending)

    def release(self) -> None:
        """Take the keyboard back."""
        if (channel := self.channel) is not None:
            self._asked = True
            self.workers.cancel_group(self, "channel")
            channel.close()
            self._over(Ending(0))

    def _over(self, ending: Ending) -> None:
        self.channel, self.prefixed, self.scrolling = None, False, False
        self.turn()
        self.post_message(self.Released(ending, asked=self._asked))
        self.post_message(self.Changed(self))

    def on_unmount(self) -> None:
        """Hang up."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    # ── output ────────────────────────────────────────────────────────────────────────────────

    def _feed_of(self, session: Session) -> Feed:
        return self._own if self._own is not None and not session.path else super()._feed_of(session)

    def _soon(self) -> None:
        wait = self._looked + _SOON - time.monotonic()
        if wait <= 0:
            self._woken()
        elif not self._waking:
            self._waking = True
            self.set_timer(wait, self._woken)

    def _woken(self) -> None:
        self._waking = False
        self._looked = time.monotonic()
        self.turn()

    def turn(self) -> bool:
        """As `TerminalPane`; what the program asked of its terminal is answered while we drive."""
        worked = super().turn()
        if worked and self.engine is not None and (answers := self.engine.replies()) and self.channel:
            self.channel.write(answers)
        self._agree_on_keys()
        return worked

    def _agree_on_keys(self) -> None:
        """Have the person's terminal send keys in the form that the program asked for, while we drive."""
        flags = self.engine.key_flags if self.channel is not None and self.engine is not None else 0
        if flags != self._key_flags:
            self._key_flags = flags
            # by its own name: what a view above it caused would not get past that view
            self.post_message(self.KeysChanged(flags).set_sender(self))

    def _end(self) -> int:
        """As `TerminalPane`; while we type, the cursor is always in sight."""
        end = super()._end()
        if self.captured and self.engine is not None and self._cursor is not None:
            width, left = self.content_size.width, self._left
            if not left <= self._cursor.x < left + width:
                half = self._cursor.x - width // 2
                self._left = max(0, min(half, self.engine.cols - width)) if self.engine.cols > width else 0
                self._redraw()
            return min(end, self.engine.history + self._cursor.y)
        return end

    def on_resize(self) -> None:
        """Our own shell follows the pane."""
        if self._own is not None and self.channel is not None:
            self.channel.resize(*self._own_size())

    # ── input ─────────────────────────────────────────────────────────────────────────────────

    async def _on_key(self, event: events.Key) -> None:
        if self.channel is None:
            return
        event.stop()
        event.prevent_default()
        if not self._ours(event.key, event.character) and self.engine is not None:
            self._send(self.engine.key(event.key, event.character))

    def typed(self, event: Typed) -> None:
        """Take a key as its terminal sent it: it goes into the cell as it is, whatever it is called."""
        if event.alone and (self.prefixed or self.scrolling):
            return
        if (event.alone or not self._ours(event.key, event.character)) and self.engine is not None:
            self._send(self.engine.stroke(event.stroke, event.key, event.character))

    def _ours(self, key: str, character: str | None) -> bool:
        """Do what a key means to us while attached; False when it is the cell's."""
        key = "ctrl+space" if key in ("ctrl+@", "ctrl+at") else key  # one byte, and three names
        if key == "f12":
            self.prefixed = False
            self._obey("d")
        elif self.prefixed:
            self.prefixed = False
            self._obey(key)
            self.post_message(self.Changed(self))
        elif key == self.prefix:
            self.prefixed = True
            self.post_message(self.Changed(self))
        elif self.scrolling:
            self._scroll_key(key, character)
        else:
            return False
        return True

    def _obey(self, key: str) -> None:
        if self.obeys is not None:
            self.obeys(key)

    def literal(self) -> None:
        """Send the prefix key itself."""
        if self.engine is not None:
            self._send(self.engine.key(self.prefix, None))

    def _send(self, data: bytes) -> None:
        if self.channel is not None and data:
            if not self.following:
                self.follow(True)
            self.channel.write(data)

    def _scroll_key(self, key: str, character: str | None) -> None:
        """Do what a key means while scrolling; here any of them ends it."""
        self.scrolling = False
        self.follow(True)

    def on_paste(self, event: events.Paste) -> None:
        """A paste goes in as one, bracketed where the program asked for it."""
        if self.channel is not None and self.engine is not None:
            event.stop()
            self._send(self.engine.paste(event.text))

    def on_blur(self) -> None:
        """The keyboard does not leave an attached terminal by a click elsewhere."""
        if self.captured and self.is_attached and self.screen.is_active:
            self.call_after_refresh(self._stay)

    def _stay(self) -> None:
        if self.captured and self.screen.is_active:
            self.focus()

    def _pointer(self, event: events.MouseEvent, action: str) -> bool:
        """Send the pointer to a program that listens; say whether it was sent."""
        engine, offset = self.engine, event.get_content_offset(self)
        if self.channel is None or engine is None or offset is None or not engine.tracks_mouse:
            return False
        if not self.following or event.shift:
            return False
        button = event.button
        if isinstance(event, events.MouseScrollUp):
            button = 4
        elif isinstance(event, events.MouseScrollDown):
            button = 5
        where = offset.x + self._left, offset.y + self._skip
        mouse = Mouse(action, *where, button, event.shift, event.meta, event.ctrl)  # type: ignore[arg-type]
        self.channel.write(engine.mouse(mouse))
        return True
