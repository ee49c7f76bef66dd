import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import type { ExecutionContext } from "ava";

/** Forwards connections to the server of a URL, so that a test can interrupt them. */
export const startRelay = async (
  t: ExecutionContext,
  serverUrl: string,
): Promise<{
  readonly url: string;
  /** Returns how many connections have been opened so far. */
  readonly connectionCount: () => number;
  /** Closes every connection and refuses new ones. */
  readonly cut: () => void;
  /** Does so as soon as a client has sent a text. */
  readonly cutAfter: (text: string) => void;
  /** Closes the connection on which a client sends a text when the server has responded to it, instead of the response. */
  readonly loseResponse: (text: string) => void;
  /** Cuts the relay when the server has responded to a client's message, counted from now, instead of the response. */
  readonly loseResponseAt: (count: number) => void;
  /** Stops forwarding on the existing connections without closing them; new ones work. */
  readonly freeze: () => void;
  /** Does so as soon as a client has sent a text. */
  readonly freezeAfter: (text: string) => void;
  /** Freezes every connection, and accepts new ones without a response, as if the server's machine hung. */
  readonly hang: () => void;
  /** Forwards the connections that were accepted while it hung, and new ones. */
  readonly resume: () => void;
}> => {
  const url = new URL(serverUrl);
  const { hostname: host, port } = url;
  const pairs = new Set<readonly [Socket, Socket]>();
  const freeze = (): void => {
    for (const [near, far] of pairs) {
      near.unpipe(far).pause();
      far.unpipe(near).pause();
    }
  };
  let isHanging = false;
  let messagesLeft = Number.POSITIVE_INFINITY;
  let last: {
    readonly text: string;
    readonly interrupt: (near: Socket, far: Socket) => void;
  } | null = null;
  const waiting = new Set<Socket>();
  const forward = (near: Socket): void => {
    const far = connect({ host, port: Number(port) });
    far.on("error", () => undefined);
    pairs.add([near, far]);
    near.pipe(far).pipe(near);
    near.on("data", (chunk: Buffer) => {
      messagesLeft -= 1;
      if (messagesLeft === 0) {
        far.unpipe(near).resume().once("data", cut);
      }
      if (last && chunk.includes(last.text)) {
        last.interrupt(near, far);
        last = null;
      }
    });
  };
  const relay = createServer((near) => {
    near.on("error", () => undefined);
    if (isHanging) {
      waiting.add(near.pause());
    } else {
      forward(near);
    }
  }).listen(0, "127.0.0.1");
  await once(relay, "listening");
  const cut = (): void => {
    relay.close();
    for (const socket of [...waiting, ...[...pairs].flat()]) {
      socket.destroy();
    }
  };
  t.teardown(cut);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  url.port = String((relay.address() as AddressInfo).port);
  return {
    url: url.href,
    connectionCount: () => pairs.size + waiting.size,
    cut,
    cutAfter: (text) => {
      last = { text, interrupt: cut };
    },
    loseResponse: (text) => {
      last = {
        text,
        interrupt: (near, far) => {
          far.unpipe(near);
          far.resume().once("data", () => {
            near.destroy();
            far.destroy();
          });
        },
      };
    },
    loseResponseAt: (count) => {
      messagesLeft = count;
    },
    freeze,
    freezeAfter: (text) => {
      last = { text, interrupt: freeze };
    },
    hang: () => {
      isHanging = true;
      freeze();
    },
    resume: () => {
      isHanging = false;
      for (const near of waiting) {
        forward(near);
      }
      waiting.clear();
    },
  };
};
