import { z } from "zod";
import { publicEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";

/** Each check rejects when its dependency does not respond within the check's own timeout. */
export type HealthChecks = {
  readonly database: () => Promise<{ readonly isClockRight: boolean }>;
  readonly temporal: () => Promise<unknown>;
};

const liveResponse = z.strictObject({ status: z.literal("ok") }).meta({ id: "Liveness" });
const ALIVE: z.output<typeof liveResponse> = { status: "ok" };

const part = z.enum(["ok", "unreachable"]);
const readyResponse = z
  .strictObject({
    status: z.enum(["ok", "unavailable"]),
    database: part,
    clock: z.enum(["ok", "off", "unknown"]).meta({
      description:
        "`off`: this machine's clock differs from the database's by more than 2 seconds, so usage could be billed in another period. `unknown`: the database is unreachable.",
    }),
    temporal: part.meta({
      description:
        "While Temporal is unreachable, registrations are accepted; billing and planting wait.",
    }),
  })
  .meta({ id: "Readiness" });
type Ready = z.output<typeof readyResponse>;

type DatabaseStatus = Pick<Ready, "database" | "clock">;

const checkDatabase = (check: HealthChecks["database"]): Promise<DatabaseStatus> =>
  check().then(
    ({ isClockRight }): DatabaseStatus => ({
      database: "ok",
      clock: isClockRight ? "ok" : "off",
    }),
    (): DatabaseStatus => ({ database: "unreachable", clock: "unknown" }),
  );

const runCheck = (check: () => Promise<unknown>): Promise<Ready["temporal"]> =>
  check().then(
    () => "ok",
    () => "unreachable",
  );

const checkReadiness = async ({ database, temporal }: HealthChecks): Promise<Ready> => {
  const [databaseStatus, temporalStatus] = await Promise.all([
    checkDatabase(database),
    runCheck(temporal),
  ]);
  return {
    status: databaseStatus.clock === "ok" ? "ok" : "unavailable",
    ...databaseStatus,
    temporal: temporalStatus,
  };
};

/** `/healthz`: the process responds. `/readyz`: so do the services it depends on. */
export const healthEndpoints = (checks: HealthChecks): readonly Endpoint[] => {
  // Anyone can call this endpoint: concurrent requests share one check, so that they cannot flood the dependencies.
  let checking: Promise<Ready> | null = null;
  return [
    publicEndpoint({
      method: "get",
      path: "/healthz",
      description: {
        operationId: "health",
        tag: "operations",
        summary: "Check that the process is alive",
        errors: [],
      },
      schemas: { response: liveResponse },
      examples: { response: ALIVE },
      handle: () => Promise.resolve(ALIVE),
    }),
    publicEndpoint({
      method: "get",
      path: "/readyz",
      description: {
        operationId: "readiness",
        tag: "operations",
        summary: "Check that requests can be served, and which dependencies respond",
        otherStatuses: { 503: "The database is unreachable, or the clock is off." },
        errors: [],
      },
      schemas: { response: readyResponse },
      examples: { response: { status: "ok", database: "ok", clock: "ok", temporal: "ok" } },
      handle: async (ctx) => {
        checking ??= checkReadiness(checks).finally(() => {
          checking = null;
        });
        const ready = await checking;
        ctx.status = ready.status === "ok" ? 200 : 503;
        return ready;
      },
    }),
  ];
};
