import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

export type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Sends the response to a request immediately; returns false if it cannot. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => boolean;

type Job = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  isRunning: boolean;
};

type Connection = {
  /** Each ends one of the requests that have a place on the connection. */
  readonly ends: Set<() => void>;
  /** Requests that wait until the connection has a place. */
  readonly waiting: Job[];
  /** Whether the socket is not read because requests wait. */
  isHeld: boolean;
};

/** Enough to keep the database busy; more would delay all responses. */
const MAXIMUM_RUNNING = 500;
/** Browsers and balancers do not pipeline, and other clients gain little from more. */
const MAXIMUM_RUNNING_PER_CONNECTION = 16;
/** Their bodies are not read yet. */
const MAXIMUM_WAITING = 5000;

/** A probe is answered whatever else waits: it costs next to nothing. */
export const PROBES: ReadonlySet<string | undefined> = new Set(["/healthz", "/readyz"]);

/** Names the client before its key is checked: by the key that it claims to have, or else by its address. */
const clientOf = ({ headers, socket }: IncomingMessage): string => {
  const key = headers.authorization ?? headers["api_key"] ?? headers["api-key"];
  return key === undefined ? (socket.remoteAddress ?? "") : String(key);
};

/**
 * Limits how many requests run at the same time, in the process and on each connection.
 *
 * A connection with more requests is not read until they have run: Node would parse everything that a client pipelines.
 * If the process is busy, requests wait, and their clients take turns. A client may have as many waiting as there are
 * free places, so the rejections go to the client that sends too much. A request that can be answered immediately takes no
 * place, but it does not overtake others.
 * @param reject responds to a request for which there is no place
 * @param isClosing whether a connection is to be closed after its last response
 */
export const limitConcurrency = (
  listener: Listener,
  {
    reject,
    answer = () => false,
    isClosing = () => false,
    maximumRunning = MAXIMUM_RUNNING,
    maximumRunningPerConnection = MAXIMUM_RUNNING_PER_CONNECTION,
    maximumWaiting = MAXIMUM_WAITING,
  }: {
    readonly reject: (response: ServerResponse) => void;
    readonly answer?: Answer | undefined;
    readonly isClosing?: () => boolean;
    readonly maximumRunning?: number;
    readonly maximumRunningPerConnection?: number;
    readonly maximumWaiting?: number;
  },
): Listener => {
  const connections = new WeakMap<Socket, Connection>();
  /** By client, in the order of their turns. */
  const waiting = new Map<string, Job[]>();
  let waitingCount = 0;
  let running = 0;

  const openConnection = (socket: Socket): Connection => {
    const connection: Connection = { ends: new Set(), waiting: [], isHeld: false };
    connections.set(socket, connection);
    // Node resumes a socket when it reads a body.
    socket.on("resume", () => {
      if (connection.isHeld) {
        socket.pause();
      }
    });
    // Of the responses that a lost connection does not get, only the first one is closed by Node.
    socket.once("close", () => {
      connection.waiting.length = 0;
      for (const end of connection.ends) {
        end();
      }
    });
    return connection;
  };

  const connectionOf = (socket: Socket): Connection =>
    connections.get(socket) ?? openConnection(socket);

  const start = ({ request, response }: Job): void => {
    const connection = connectionOf(request.socket);
    if (isClosing() && connection.ends.size === 1 && connection.waiting.length === 0) {
      response.setHeader("Connection", "close");
    }
    listener(request, response);
  };

  const run = (job: Job): void => {
    running += 1;
    job.isRunning = true;
    start(job);
  };

  const startWaiting = (): void => {
    for (const [client, jobs] of waiting) {
      if (running >= maximumRunning) {
        return;
      }
      const job = jobs.shift();
      waitingCount -= 1;
      waiting.delete(client);
      if (jobs.length > 0) {
        // The client's next turn comes after those of the others; the loop visits it again.
        waiting.set(client, jobs);
      }
      // The client may have gone.
      if (job && !job.request.socket.destroyed) {
        run(job);
      }
    }
  };

  const runInTurn = (job: Job): void => {
    if (PROBES.has(job.request.url)) {
      start(job);
      return;
    }
    if (running < maximumRunning) {
      run(job);
      return;
    }
    const client = clientOf(job.request);
    const jobs = waiting.get(client) ?? [];
    if (jobs.length >= maximumWaiting - waitingCount) {
      reject(job.response);
      return;
    }
    jobs.push(job);
    waiting.set(client, jobs);
    waitingCount += 1;
  };

  const enter = (job: Job, connection: Connection): void => {
    const { socket } = job.request;
    const end = (): void => {
      if (!connection.ends.delete(end)) {
        return;
      }
      if (job.isRunning) {
        running -= 1;
        startWaiting();
      }
      const next = connection.waiting.shift();
      if (next) {
        enter(next, connection);
      }
      if (connection.isHeld && connection.waiting.length === 0) {
        connection.isHeld = false;
        socket.resume();
      }
    };
    connection.ends.add(end);
    job.response.once("close", end);
    runInTurn(job);
  };

  return (request, response) => {
    const { socket } = request;
    const connection = connectionOf(socket);
    const isIdle = connection.ends.size === 0 && connection.waiting.length === 0;
    if (isIdle && running < maximumRunning && !isClosing() && answer(request, response)) {
      return;
    }
    const job = { request, response, isRunning: false };
    if (connection.ends.size < maximumRunningPerConnection && connection.waiting.length === 0) {
      enter(job, connection);
    } else {
      connection.waiting.push(job);
      connection.isHeld = true;
      socket.pause();
    }
  };
};
