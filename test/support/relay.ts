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
  /** Stops forwarding on the existing connections without closing them; new ones work. */
  readonly freeze: () => void;
  /** Does so as soon as a client has sent a text. */
  readonly freezeAfter: (text: string) => void;
  /** Forwards on the frozen connections again, and waits until they are closed. */
  readonly thaw: () => Promise<void>;
  /** Freezes every connection, and accepts new ones without a response, as if the server's machine hung. */
  readonly hang: () => void;
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
  let lastText: string | null = null;
  const relay = createServer((near) => {
    near.on("error", () => undefined);
    if (isHanging) {
      pairs.add([near.pause(), near]);
      return;
    }
    const far = connect({ host, port: Number(port) });
    far.on("error", () => undefined);
    pairs.add([near, far]);
    near.pipe(far).pipe(near);
    near.on("data", (chunk: Buffer) => {
      if (lastText !== null && chunk.includes(lastText)) {
        lastText = null;
        freeze();
      }
    });
  }).listen(0, "127.0.0.1");
  await once(relay, "listening");
  const cut = (): void => {
    relay.close();
    for (const socket of [...pairs].flat()) {
      socket.destroy();
    }
  };
  t.teardown(cut);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  url.port = String((relay.address() as AddressInfo).port);
  return {
    url: url.href,
    connectionCount: () => pairs.size,
    cut,
    freeze,
    freezeAfter: (text) => {
      lastText = text;
    },
    thaw: async () => {
      const frozen = [...pairs].filter(([near]) => near.isPaused() && !near.destroyed);
      await Promise.all(
        frozen.map(([near, far]) => {
          const closed = once(near, "close");
          near.pipe(far).pipe(near);
          return closed;
        }),
      );
    },
    hang: () => {
      isHanging = true;
      freeze();
    },
  };
};
