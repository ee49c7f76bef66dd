import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createAccountTurns } from "./accountTurns.ts";
import type { Turn } from "./accountTurns.ts";
import { createFairQueue } from "./createFairQueue.ts";

export type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Sends the response to a request immediately; returns false if it cannot. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => boolean;

type Job = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Whether it has a place in the process. */
  isRunning: boolean;
  /** Of its account; null until its key is checked. */
  turn: Turn | null;
};

type Connection = {
  /** The requests that have a place on the connection. */
  readonly jobs: Set<Job>;
  /** Requests that wait until the connection has a place. */
  readonly waiting: Job[];
  /** Whether the socket is not read because requests wait. */
  isHeld: boolean;
  readonly places: Places;
};

/** What the handler of a request may change about its places. */
type Places = {
  readonly leave: (job: Job) => void;
  readonly leaveForGood: (job: Job) => void;
  readonly takeAgain: (job: Job) => void;
  readonly takeTurn: (job: Job, accountName: string) => Promise<boolean> | null;
};

const connections = new WeakMap<Socket, Connection>();

const findJob = (
  request: IncomingMessage,
): { readonly job: Job; readonly places: Places } | null => {
  const connection = connections.get(request.socket);
  for (const job of connection?.jobs ?? []) {
    if (connection && job.request === request) {
      return { job, places: connection.places };
    }
  }
  return null;
};

/**
 * Waits for a client without a place in the process. After that the request goes on: it has had its turn, so more than the
 * maximum may run for a moment.
 */
export const withoutPlace = async <Result>(
  request: IncomingMessage,
  wait: () => Promise<Result>,
): Promise<Result> => {
  const found = findJob(request);
  found?.places.leave(found.job);
  try {
    return await wait();
  } finally {
    found?.places.takeAgain(found.job);
  }
};

/** Ends the turn of a request whose response is limited in another way, such as a list that its client may read slowly. */
export const leaveForGood = (request: IncomingMessage): void => {
  const found = findJob(request);
  found?.places.leaveForGood(found.job);
};

/**
 * Counts a request as one of an account, until its response has been read. If too many of the account run, it waits without
 * a place in the process.
 * @returns null if it may go on; otherwise a promise for whether it may, or its client has gone
 */
export const takeTurn = (
  request: IncomingMessage,
  accountName: string,
): Promise<boolean> | null => {
  const found = findJob(request);
  return found && found.places.takeTurn(found.job, accountName);
};

/** Enough to keep the database busy; more would delay all responses. */
const MAXIMUM_RUNNING = 500;
/** Half of them, so that one account always leaves places to others. */
const MAXIMUM_RUNNING_PER_ACCOUNT = 250;
/** A client may be slow, but must read what it has requested before it requests more. */
const MAXIMUM_UNREAD_BYTES_PER_ACCOUNT = 64 * 1024 * 1024;
/** Browsers and balancers do not pipeline, and other clients gain little from more. */
const MAXIMUM_RUNNING_PER_CONNECTION = 16;
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
 *
 * A place in the process is for work, which ends when the promise of the listener settles. A request that waits for its
 * client has none: while its body arrives, or its response is read. The place on the connection is kept until then.
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
    maximumRunningPerAccount = MAXIMUM_RUNNING_PER_ACCOUNT,
    maximumRunningPerConnection = MAXIMUM_RUNNING_PER_CONNECTION,
    maximumUnreadBytesPerAccount = MAXIMUM_UNREAD_BYTES_PER_ACCOUNT,
    maximumWaiting = MAXIMUM_WAITING,
  }: {
    readonly reject: (response: ServerResponse) => void;
    readonly answer?: Answer | undefined;
    readonly isClosing?: () => boolean;
    readonly maximumRunning?: number;
    readonly maximumRunningPerAccount?: number;
    readonly maximumRunningPerConnection?: number;
    readonly maximumUnreadBytesPerAccount?: number;
    readonly maximumWaiting?: number;
  },
): Listener => {
  const turns = createAccountTurns({
    maximumRunning: maximumRunningPerAccount,
    maximumUnreadBytes: maximumUnreadBytesPerAccount,
  });
  const waiting = createFairQueue<Job>(maximumWaiting);
  let running = 0;
  let isStarting = false;

  const openConnection = (socket: Socket): Connection => {
    const connection: Connection = { jobs: new Set(), waiting: [], isHeld: false, places };
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
      for (const job of connection.jobs) {
        end(job, connection);
      }
    });
    return connection;
  };

  const connectionOf = (socket: Socket): Connection =>
    connections.get(socket) ?? openConnection(socket);

  const leave = (job: Job): void => {
    if (job.isRunning) {
      job.isRunning = false;
      running -= 1;
      startWaiting();
    }
  };

  const finish = (job: Job, connection: Connection): void => {
    leave(job);
    if (job.turn !== null && connection.jobs.has(job)) {
      turns.finish(job.turn, job.response.writableLength);
    }
  };

  const start = (job: Job): void => {
    const { request, response } = job;
    const connection = connectionOf(request.socket);
    if (isClosing() && connection.jobs.size === 1 && connection.waiting.length === 0) {
      response.setHeader("Connection", "close");
    }
    const work = listener(request, response);
    if (work instanceof Promise) {
      const finished = (): void => finish(job, connection);
      work.then(finished, finished);
    }
  };

  const run = (job: Job): void => {
    running += 1;
    job.isRunning = true;
    start(job);
  };

  const takeNext = (): Job | undefined => (running < maximumRunning ? waiting.take() : undefined);

  const startNext = (): void => {
    for (let job = takeNext(); job !== undefined; job = takeNext()) {
      // The client may have gone.
      if (!job.request.socket.destroyed) {
        run(job);
      }
    }
  };

  /** A request that leaves its place before its listener returns does not start the next one within its own call. */
  const startWaiting = (): void => {
    if (!isStarting) {
      isStarting = true;
      try {
        startNext();
      } finally {
        isStarting = false;
      }
    }
  };

  const places: Places = {
    leave,
    leaveForGood: (job) => {
      leave(job);
      if (job.turn !== null) {
        turns.stop(job.turn);
      }
    },
    takeAgain: (job) => {
      // A lost connection has no places.
      if (!job.isRunning && connections.get(job.request.socket)?.jobs.has(job) === true) {
        running += 1;
        job.isRunning = true;
      }
    },
    takeTurn: (job, accountName) => {
      const turn = turns.enter(accountName);
      job.turn = turn;
      if (turn.isRunning) {
        return null;
      }
      leave(job);
      return new Promise((resolve) => {
        turn.start = (isRunning) => {
          if (isRunning) {
            places.takeAgain(job);
          }
          resolve(isRunning);
        };
      });
    },
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
    if (!waiting.add(clientOf(job.request), job)) {
      reject(job.response);
    }
  };

  const end = (job: Job, connection: Connection): void => {
    if (!connection.jobs.delete(job)) {
      return;
    }
    leave(job);
    if (job.turn !== null) {
      turns.end(job.turn);
    }
    const next = connection.waiting.shift();
    if (next) {
      enter(next, connection);
    }
    if (connection.isHeld && connection.waiting.length === 0) {
      connection.isHeld = false;
      job.request.socket.resume();
    }
  };

  const enter = (job: Job, connection: Connection): void => {
    connection.jobs.add(job);
    job.response.once("close", () => end(job, connection));
    runInTurn(job);
  };

  return (request, response) => {
    const { socket } = request;
    const connection = connectionOf(socket);
    const isIdle = connection.jobs.size === 0 && connection.waiting.length === 0;
    if (isIdle && running < maximumRunning && !isClosing() && answer(request, response)) {
      return;
    }
    const job: Job = { request, response, isRunning: false, turn: null };
    if (connection.jobs.size < maximumRunningPerConnection && connection.waiting.length === 0) {
      enter(job, connection);
    } else {
      connection.waiting.push(job);
      connection.isHeld = true;
      socket.pause();
    }
  };
};
