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
  readonly limiter: RequestLimiter;
};

const connections = new WeakMap<Socket, Connection>();

const findJob = (
  request: IncomingMessage,
): { readonly job: Job; readonly limiter: RequestLimiter } | null => {
  const connection = connections.get(request.socket);
  for (const job of connection?.jobs ?? []) {
    if (connection && job.request === request) {
      return { job, limiter: connection.limiter };
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
  found?.limiter.leave(found.job);
  try {
    return await wait();
  } finally {
    found?.limiter.takeAgain(found.job);
  }
};

/** Ends the turn of a request whose response is limited in another way, such as a list that its client may read slowly. */
export const leaveForGood = (request: IncomingMessage): void => {
  const found = findJob(request);
  found?.limiter.leaveForGood(found.job);
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
  return found && found.limiter.takeTurn(found.job, accountName);
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

type Options = {
  readonly reject: (response: ServerResponse) => void;
  readonly answer?: Answer | undefined;
  readonly isClosing?: () => boolean;
  readonly maximumRunning?: number;
  readonly maximumRunningPerAccount?: number;
  readonly maximumRunningPerConnection?: number;
  readonly maximumUnreadBytesPerAccount?: number;
  readonly maximumWaiting?: number;
};

class RequestLimiter {
  readonly #listener: Listener;
  readonly #reject: (response: ServerResponse) => void;
  readonly #answer: Answer;
  readonly #isClosing: () => boolean;
  readonly #maximumRunning: number;
  readonly #maximumRunningPerConnection: number;
  readonly #turns: ReturnType<typeof createAccountTurns>;
  readonly #waiting: ReturnType<typeof createFairQueue<Job>>;
  #running = 0;
  #isStarting = false;

  constructor(
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
    }: Options,
  ) {
    this.#listener = listener;
    this.#reject = reject;
    this.#answer = answer;
    this.#isClosing = isClosing;
    this.#maximumRunning = maximumRunning;
    this.#maximumRunningPerConnection = maximumRunningPerConnection;
    this.#turns = createAccountTurns({
      maximumRunning: maximumRunningPerAccount,
      maximumUnreadBytes: maximumUnreadBytesPerAccount,
    });
    this.#waiting = createFairQueue<Job>(maximumWaiting);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const connection = this.#connectionOf(socket);
    const isIdle = connection.jobs.size === 0 && connection.waiting.length === 0;
    if (
      isIdle &&
      this.#running < this.#maximumRunning &&
      !this.#isClosing() &&
      this.#answer(request, response)
    ) {
      return;
    }
    const job: Job = { request, response, isRunning: false, turn: null };
    if (
      connection.jobs.size < this.#maximumRunningPerConnection &&
      connection.waiting.length === 0
    ) {
      this.#enter(job, connection);
    } else {
      connection.waiting.push(job);
      connection.isHeld = true;
      socket.pause();
    }
  }

  leave(job: Job): void {
    if (job.isRunning) {
      job.isRunning = false;
      this.#running -= 1;
      this.#startWaiting();
    }
  }

  leaveForGood(job: Job): void {
    this.leave(job);
    if (job.turn !== null) {
      this.#turns.stop(job.turn);
    }
  }

  takeAgain(job: Job): void {
    // A lost connection has no places.
    if (!job.isRunning && connections.get(job.request.socket)?.jobs.has(job) === true) {
      this.#running += 1;
      job.isRunning = true;
    }
  }

  takeTurn(job: Job, accountName: string): Promise<boolean> | null {
    const turn = this.#turns.enter(accountName);
    job.turn = turn;
    if (turn.isRunning) {
      return null;
    }
    this.leave(job);
    return new Promise((resolve) => {
      turn.start = (isRunning) => {
        if (isRunning) {
          this.takeAgain(job);
        }
        resolve(isRunning);
      };
    });
  }

  #connectionOf(socket: Socket): Connection {
    return connections.get(socket) ?? this.#openConnection(socket);
  }

  #openConnection(socket: Socket): Connection {
    const connection: Connection = { jobs: new Set(), waiting: [], isHeld: false, limiter: this };
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
        this.#end(job, connection);
      }
    });
    return connection;
  }

  #enter(job: Job, connection: Connection): void {
    connection.jobs.add(job);
    job.response.once("close", () => this.#end(job, connection));
    if (PROBES.has(job.request.url)) {
      this.#start(job);
    } else if (this.#running < this.#maximumRunning) {
      this.#run(job);
    } else if (!this.#waiting.add(clientOf(job.request), job)) {
      this.#reject(job.response);
    }
  }

  #run(job: Job): void {
    this.#running += 1;
    job.isRunning = true;
    this.#start(job);
  }

  #start(job: Job): void {
    const { request, response } = job;
    const connection = this.#connectionOf(request.socket);
    if (this.#isClosing() && connection.jobs.size === 1 && connection.waiting.length === 0) {
      response.setHeader("Connection", "close");
    }
    const work = this.#listener(request, response);
    if (work instanceof Promise) {
      const finished = (): void => this.#finish(job, connection);
      work.then(finished, finished);
    }
  }

  #finish(job: Job, connection: Connection): void {
    this.leave(job);
    if (job.turn !== null && connection.jobs.has(job)) {
      this.#turns.finish(job.turn, job.response.writableLength);
    }
  }

  #end(job: Job, connection: Connection): void {
    if (!connection.jobs.delete(job)) {
      return;
    }
    this.leave(job);
    if (job.turn !== null) {
      this.#turns.end(job.turn);
    }
    const next = connection.waiting.shift();
    if (next) {
      this.#enter(next, connection);
    }
    if (connection.isHeld && connection.waiting.length === 0) {
      connection.isHeld = false;
      job.request.socket.resume();
    }
  }

  /** A request that leaves its place before its listener returns does not start the next one within its own call. */
  #startWaiting(): void {
    if (this.#isStarting) {
      return;
    }
    this.#isStarting = true;
    try {
      for (let job = this.#takeNext(); job !== undefined; job = this.#takeNext()) {
        // The client may have gone.
        if (!job.request.socket.destroyed) {
          this.#run(job);
        }
      }
    } finally {
      this.#isStarting = false;
    }
  }

  #takeNext(): Job | undefined {
    return this.#running < this.#maximumRunning ? this.#waiting.take() : undefined;
  }
}

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
export const limitConcurrency = (listener: Listener, options: Options): Listener => {
  const limiter = new RequestLimiter(listener, options);
  return (request, response) => limiter.handle(request, response);
};
