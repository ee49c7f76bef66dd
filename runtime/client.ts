import { AsyncLocalStorage } from "node:async_hooks";

const clients = new AsyncLocalStorage<string>();

/** Runs work for a client, an account or what requests without a key have in common, so that gates count it as the client's. */
export const runForClient = <Result>(name: string, work: () => Result): Result =>
  clients.run(name, work);

/** Runs work on behalf of all clients, such as a batch of their writes. */
export const runForAll = <Result>(work: () => Result): Result => clients.exit(work);

/** Returns the client for whom this code runs; undefined on behalf of all clients. */
export const currentClient = (): string | undefined => clients.getStore();
