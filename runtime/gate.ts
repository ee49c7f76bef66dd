import { DomainError } from "./errors.rules.ts";

type Client = {
  readonly name: string | undefined;
  /** Its jobs, also those that wait or have left their places. */
  jobs: number;
  running: number;
  bytes: number;
  /** In the order in which they came. */
  readonly waiting: Set<Pass>;
};

export type Pass = {
  readonly gate: Gate;
  client: Client | null;
  isRunning: boolean;
  bytes: number;
  /** Called once the job has a place, or with an error if it gets none. Set it if the job does not run at once. */
  resume: ((error?: Error) => void) | null;
};

type Limits = {
  readonly places: number;
  /** How many of the places are only for work on behalf of all clients. */
  readonly reserved: number;
  readonly maximumWaiting: number;
  /** For how long they may wait in `wait` and `run`. */
  readonly maximumWaitMs: number;
  readonly maximumBytes: number;
};

const DEFAULT_LIMITS = {
  reserved: 0,
  maximumWaiting: 10_000,
  // Clients and proxies commonly wait no longer.
  maximumWaitMs: 60_000,
  maximumBytes: Infinity,
};

const tooMany = (what: string): DomainError =>
  new DomainError("queue_full", `too many ${what}, try again`);

const WAITING = "requests are waiting";

/**
 * Decides which job waits for which: a client may hold as much as is free. Each of several greedy clients has as much as it
 * leaves for the next one, so a newcomer always finds room.
 *
 * - A job runs if its client has fewer places than are free. Otherwise it waits, and clients take turns.
 * - A client may have as many jobs waiting as there is room for more, so the rejected ones are of the client that fills the
 *   gate. The same holds for bytes.
 * - Work on behalf of all clients, whose client is undefined, needs only a place.
 */
export class Gate {
  readonly #limits: Limits;
  readonly #clients = new Map<string | undefined, Client>();
  /** Those with jobs that wait, in the order of their turns. */
  readonly #turns = new Set<Client>();
  #running = 0;
  #waiting = 0;
  #bytes = 0;
  #isStarting = false;

  constructor(limits: Pick<Limits, "places"> & Partial<Limits>) {
    this.#limits = { ...DEFAULT_LIMITS, ...limits };
  }

  runningCount(): number {
    return this.#running;
  }

  waitingCount(): number {
    return this.#waiting;
  }

  /** @throws DomainError queue_full */
  enter(name: string | undefined): Pass {
    const pass: Pass = { gate: this, client: null, isRunning: false, bytes: 0, resume: null };
    this.#join(pass, name);
    return pass;
  }

  /**
   * Makes a running job, which holds no bytes, one of another client, for whose turn it may have to wait.
   * @returns whether it may go on; otherwise it waits
   * @throws DomainError queue_full
   */
  rename(pass: Pass, name: string): boolean {
    // A job that has ended does not wait.
    if (pass.client === null || pass.client.name === name) {
      return true;
    }
    this.#remove(pass);
    try {
      this.#join(pass, name);
    } finally {
      this.#startWaiting();
    }
    return pass.isRunning;
  }

  /**
   * Waits until a job that does not run yet has its place.
   * @throws DomainError queue_full if it has waited too long, and the error of `end`
   */
  wait(pass: Pass): Promise<void> {
    return new Promise((resolve, reject) => {
      const { maximumWaitMs } = this.#limits;
      const timer =
        maximumWaitMs === Infinity
          ? undefined
          : setTimeout(() => this.end(pass, tooMany(WAITING)), maximumWaitMs);
      pass.resume = (error) => {
        clearTimeout(timer);
        if (error === undefined) {
          resolve();
        } else {
          reject(error);
        }
      };
    });
  }

  /**
   * Runs work as soon as its client may have a place.
   * @throws DomainError queue_full if too much waits, or this has waited too long
   */
  async run<Result>(name: string | undefined, work: () => Promise<Result>): Promise<Result> {
    const pass = this.enter(name);
    if (!pass.isRunning) {
      await this.wait(pass);
    }
    try {
      return await work();
    } finally {
      this.end(pass);
    }
  }

  /**
   * Takes the place from a job, for example while it waits for its client.
   * @param bytes what it holds from now on; while its client holds more than is free, the client's further jobs wait
   */
  leave(pass: Pass, bytes = pass.bytes): void {
    this.#change(pass, false, bytes);
    this.#startWaiting();
  }

  /** Gives a job its place again: beyond the maximum if necessary, because it has had its turn. */
  retake(pass: Pass): void {
    this.#change(pass, true, pass.bytes);
  }

  /**
   * Sets how many bytes a job holds.
   * @throws DomainError queue_full if its client may not hold as many
   */
  hold(pass: Pass, bytes: number): void {
    const more = bytes - pass.bytes;
    if (more > 0 && more > this.#limits.maximumBytes - this.#bytes - (pass.client?.bytes ?? 0)) {
      throw tooMany("request bodies are arriving");
    }
    this.#change(pass, pass.isRunning, bytes);
    this.#startWaiting();
  }

  /** Ends a job. If it still waits, it is resumed with the error. */
  end(pass: Pass, error?: Error): void {
    const { resume } = pass;
    this.#remove(pass);
    this.#startWaiting();
    resume?.(error ?? new DomainError("request_invalid", "the client has disconnected"));
  }

  /** How many places clients may still have. */
  #free(): number {
    const reserved = this.#limits.reserved - (this.#clients.get(undefined)?.running ?? 0);
    return this.#limits.places - this.#running - Math.max(0, reserved);
  }

  #mayRun({ name, running, bytes }: Client, free: number): boolean {
    return name === undefined
      ? this.#running < this.#limits.places
      : running < free && bytes <= Math.max(0, this.#limits.maximumBytes - this.#bytes);
  }

  #join(pass: Pass, name: string | undefined): void {
    const known = this.#clients.get(name);
    const client = known ?? { name, jobs: 0, running: 0, bytes: 0, waiting: new Set<Pass>() };
    const { waiting } = client;
    const runs = waiting.size === 0 && this.#mayRun(client, this.#free());
    const room = this.#limits.maximumWaiting - this.#waiting;
    if (!runs && name !== undefined && waiting.size >= room) {
      throw tooMany(WAITING);
    }
    this.#clients.set(name, client);
    pass.client = client;
    client.jobs += 1;
    if (runs) {
      this.#change(pass, true, 0);
    } else {
      waiting.add(pass);
      this.#turns.add(client);
      this.#waiting += 1;
    }
  }

  #change(pass: Pass, isRunning: boolean, bytes: number): void {
    const { client } = pass;
    if (client !== null) {
      const places = Number(isRunning) - Number(pass.isRunning);
      client.running += places;
      this.#running += places;
      client.bytes += bytes - pass.bytes;
      this.#bytes += bytes - pass.bytes;
      pass.isRunning = isRunning;
      pass.bytes = bytes;
    }
  }

  #stopWaiting(pass: Pass, client: Client): void {
    if (client.waiting.delete(pass)) {
      pass.resume = null;
      this.#waiting -= 1;
      if (client.waiting.size === 0) {
        this.#turns.delete(client);
      }
    }
  }

  #remove(pass: Pass): void {
    const { client } = pass;
    if (client !== null) {
      this.#stopWaiting(pass, client);
      this.#change(pass, false, 0);
      pass.client = null;
      client.jobs -= 1;
      if (client.jobs === 0) {
        this.#clients.delete(client.name);
      }
    }
  }

  #findNext(): Client | undefined {
    const free = this.#free();
    const all = this.#clients.get(undefined);
    if (all && all.waiting.size > 0 && this.#mayRun(all, free)) {
      return all;
    }
    return free > 0 ? this.#turns.values().find((client) => this.#mayRun(client, free)) : undefined;
  }

  /** Starts what may run now. A job that ends within its own start does not start the next one within that call. */
  #startWaiting(): void {
    if (this.#waiting === 0 || this.#isStarting) {
      return;
    }
    this.#isStarting = true;
    for (let client = this.#findNext(); client !== undefined; client = this.#findNext()) {
      // Its next turn comes after those of the others.
      this.#turns.delete(client);
      this.#turns.add(client);
      const [pass] = client.waiting;
      if (pass !== undefined) {
        const { resume } = pass;
        this.#stopWaiting(pass, client);
        this.#change(pass, true, pass.bytes);
        resume?.();
      }
    }
    this.#isStarting = false;
  }
}
