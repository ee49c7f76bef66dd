import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { DomainError } from "../errors.rules.ts";
import { Gate } from "../gate.ts";
import type { Pass } from "../gate.ts";

export type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Creates the gate of requests. Both interfaces of a process may share one. */
export const createRequestGate = (): Gate =>
  new Gate({
    // Enough to keep the database busy; more would delay all responses.
    places: 500,
    // A request that waits takes a few KiB.
    maximumWaiting: 15_000,
    // Bodies that arrive, and responses that are not read.
    maximumBytes: 128 * 1024 * 1024,
  });

/** A probe is answered whatever else waits: it costs next to nothing. */
export const PROBES: ReadonlySet<string | undefined> = new Set(["/healthz", "/readyz"]);

/** Names the client before its key is checked: by the key that it claims to have, or else by its address. */
const clientOf = ({ headers, socket }: IncomingMessage): string => {
  const key = headers.authorization ?? headers["api_key"] ?? headers["api-key"];
  return key === undefined ? (socket.remoteAddress ?? "") : String(key);
};

const passes = new WeakMap<IncomingMessage, Pass>();

/** Returns the place of a request; undefined for a probe. */
export const passOf = (request: IncomingMessage): Pass | undefined => passes.get(request);

/**
 * Makes a request one of a client, now that it is known.
 * @returns null if it may go on, otherwise a promise that is rejected if the request gets no place: too many wait, or its
 *   client has gone
 * @throws DomainError queue_full
 */
export const nameClient = (request: IncomingMessage, name: string): Promise<void> | null => {
  const pass = passes.get(request);
  if (pass === undefined) {
    return null;
  }
  return pass.gate.rename(pass, name) ? null : pass.gate.wait(pass);
};

/**
 * Lets requests in through a gate. Clients that send more than it has places and room for get a 503.
 *
 * A request has a place until the promise of the listener settles, but not while its body arrives, and what its client has
 * not read of the response counts against the client's memory. So a client that stalls takes nothing from others.
 * @param reject responds to a request for which there is no room
 * @param isClosing whether a connection is to be closed after its last response
 */
export const openDoor = (
  listener: Listener,
  {
    gate,
    reject,
    isClosing = () => false,
  }: {
    readonly gate: Gate;
    readonly reject: (response: ServerResponse) => void;
    readonly isClosing?: () => boolean;
  },
): Listener => {
  /** The requests of a connection that have no complete response. */
  const connections = new WeakMap<Socket, Set<Pass>>();

  const openConnection = (socket: Socket): Set<Pass> => {
    const connection = new Set<Pass>();
    connections.set(socket, connection);
    // Of the responses that a lost connection does not get, Node closes only the first one.
    socket.once("close", () => {
      for (const pass of connection) {
        gate.end(pass);
      }
    });
    return connection;
  };

  const run = (request: IncomingMessage, response: ServerResponse, pass: Pass | null): void => {
    if (isClosing() && (connections.get(request.socket)?.size ?? 0) <= (pass === null ? 0 : 1)) {
      response.setHeader("Connection", "close");
    }
    const work = listener(request, response);
    if (work instanceof Promise && pass !== null) {
      const finish = (): void => {
        gate.leave(pass, response.writableLength);
      };
      work.then(finish, finish);
    }
  };

  return (request, response) => {
    if (PROBES.has(request.url)) {
      run(request, response, null);
      return;
    }
    const { socket } = request;
    let pass: Pass;
    try {
      pass = gate.enter(clientOf(request));
    } catch (error) {
      if (!(error instanceof DomainError && error.code === "queue_full")) {
        throw error;
      }
      reject(response);
      return;
    }
    const connection = connections.get(socket) ?? openConnection(socket);
    connection.add(pass);
    passes.set(request, pass);
    response.once("close", () => {
      connection.delete(pass);
      gate.end(pass);
    });
    if (pass.isRunning) {
      run(request, response, pass);
    } else {
      pass.resume = (error) => {
        if (error === undefined) {
          run(request, response, pass);
        }
      };
    }
  };
};
