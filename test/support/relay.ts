import { connect, createServer } from "node:net";
import type { Socket } from "node:net";
import type { ExecutionContext } from "ava";
import { listen } from "./server.ts";

/** Forwards connections to the server of a URL, so that a test can interrupt them. */
export const startRelay = async (t: ExecutionContext, serverUrl: string) => {
  const url = new URL(serverUrl);
  const { hostname: host, port } = url;
  const pairs = new Set<readonly [near: Socket, far: Socket]>();
  const waiting = new Set<Socket>();
  let isHanging = false;
  /** What interrupts the connection of a client's message, once. */
  let awaited: {
    readonly isIn: (chunk: Buffer) => boolean;
    readonly interrupt: (near: Socket, far: Socket) => void;
  } | null = null;
  const forward = (near: Socket): void => {
    const far = connect({ host, port: Number(port) });
    far.on("error", () => undefined);
    pairs.add([near, far]);
    near.pipe(far).pipe(near);
    near.on("data", (chunk: Buffer) => {
      if (awaited?.isIn(chunk) === true) {
        awaited.interrupt(near, far);
        awaited = null;
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
  });
  const freeze = (): void => {
    for (const [near, far] of pairs) {
      near.unpipe(far).pause();
      far.unpipe(near).pause();
    }
  };
  const cut = (): void => {
    relay.close();
    for (const socket of [...waiting, ...[...pairs].flat()]) {
      socket.destroy();
    }
  };
  const after = (text: string, interrupt: (near: Socket, far: Socket) => void): void => {
    awaited = { isIn: (chunk) => chunk.includes(text), interrupt };
  };
  url.port = String(await listen(t, relay));
  t.teardown(cut);
  return {
    url: url.href,
    connectionCount: () => pairs.size + waiting.size,
    /** Closes every connection and refuses new ones. */
    cut,
    /** Closes the connection on which a client sends a text when the server has responded to it, instead of the response. */
    loseResponse: (text: string): void =>
      after(text, (near, far) => {
        far.unpipe(near);
        far.resume().once("data", () => {
          near.destroy();
          far.destroy();
        });
      }),
    /** Cuts the relay when the server has responded to a client's message, counted from now, instead of the response. */
    loseResponseAt: (count: number): void => {
      let left = count;
      awaited = {
        isIn: () => {
          left -= 1;
          return left === 0;
        },
        interrupt: (near, far) => {
          far.unpipe(near).resume().once("data", cut);
        },
      };
    },
    /** Stops forwarding on the existing connections without closing them; new ones work. */
    freeze,
    /** Does so as soon as a client has sent a text. */
    freezeAfter: (text: string): void => after(text, freeze),
    /** Freezes every connection, and accepts new ones without a response, as if the server's machine hung. */
    hang: (): void => {
      isHanging = true;
      freeze();
    },
    /** Forwards the connections that were accepted while it hung, and new ones. */
    resume: (): void => {
      isHanging = false;
      for (const near of waiting) {
        forward(near);
      }
      waiting.clear();
    },
  };
};
