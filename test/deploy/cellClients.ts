import { Agent } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import type { Proxy } from "./startProxy.ts";

export type TestAccount = { readonly key: string; readonly customerId: string };

const CLIENTS = 16;
/** Of the account that moves. */
const MOVING_CLIENTS = 4;
/** Between the requests of a client during the move. Without it, the clients take the CPU time that the commands need. */
const PAUSE_MS = 100;

const planted = z.object({
  tree_details: z.tuple([z.object({ id: z.string(), created_at: z.iso.datetime() })]),
});
/** Clients of all accounts, which come through the proxy. */
export const createClients = (t: ExecutionContext, { call }: Pick<Proxy, "call">) => {
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => agent.destroy());
  /** The trees of each customer at each second that responses have confirmed. */
  const confirmed = new Map<string, number>();

  /** Returns the status of a response, if one arrived, and the id of the registration. */
  const plant = async (
    { key, customerId }: TestAccount,
    orderId: string,
    count = 1,
  ): Promise<{ readonly status: number | null; readonly id?: string }> => {
    try {
      const { status, body } = await call("standalone", "/plant/trees", {
        headers: { Authorization: key },
        body: JSON.stringify({ count, idempotency_key: orderId }),
        agent,
      });
      if (status !== 200) {
        return { status };
      }
      const [tree] = planted.parse(JSON.parse(body)).tree_details;
      const at = `${customerId} ${Math.floor(Date.parse(tree.created_at) / 1000)}`;
      confirmed.set(at, (confirmed.get(at) ?? 0) + count);
      return { status, id: tree.id };
    } catch {
      return { status: null };
    }
  };

  return {
    confirmed,
    plant,
    /** Repeats a request until it is confirmed, as a client does. Returns the id, and the statuses before. */
    plantUntilConfirmed: async (account: TestAccount, orderId: string, count = 1) => {
      const failures: (number | null)[] = [];
      for (;;) {
        const { status, id } = await plant(account, orderId, count);
        if (id !== undefined) {
          return { id, failures };
        }
        failures.push(status);
        await delay(100);
      }
    },
    /** Plants a tree for each account, and returns how often each status was the response. */
    plantForAll: async (accounts: readonly TestAccount[], orderId: string) => {
      const waiting = accounts.values();
      const statuses = new Map<number | null, number>();
      const sendRequests = async (): Promise<void> => {
        for (const account of waiting) {
          const { status } = await plant(account, orderId);
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
        }
      };
      await Promise.all(Array.from({ length: CLIENTS }, sendRequests));
      return statuses;
    },
  };
};

type Clients = ReturnType<typeof createClients>;

/** Registers trees of an account that moves and of the others of its cell, until it is stopped. */
export const startLoad = (
  t: ExecutionContext,
  { plant, plantUntilConfirmed }: Clients,
  moving: TestAccount,
  others: readonly TestAccount[],
) => {
  const ended = new AbortController();
  t.teardown(() => ended.abort());
  /** The count of each registration of the moving account. */
  const counts = new Map<string, number>();
  const failures = { moving: new Set<number | null>(), others: new Set<number | null>() };
  let requests = 0;
  const registerMoving = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      requests += 1;
      const count = 1 + (requests % 3);
      const registered = await plantUntilConfirmed(moving, `order-${requests}`, count);
      registered.failures.forEach((status) => failures.moving.add(status));
      counts.set(registered.id, count);
      await delay(PAUSE_MS);
    }
  };
  const registerOthers = async (): Promise<void> => {
    for (let turn = 0; !ended.signal.aborted; turn += 1) {
      for (const account of others.slice(turn % others.length).slice(0, 1)) {
        const { status } = await plant(account, `turn-${turn}`);
        if (status !== 200) {
          failures.others.add(status);
        }
      }
      await delay(PAUSE_MS);
    }
  };
  const clients = [...Array.from({ length: MOVING_CLIENTS }, registerMoving), registerOthers()];
  return {
    counts,
    failures,
    stop: async (): Promise<void> => {
      ended.abort();
      await Promise.all(clients);
    },
  };
};
