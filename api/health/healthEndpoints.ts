import { z } from "zod";
import { publicEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";

/** Reject when the dependency does not answer; they bound their own time. */
export type HealthChecks = {
  readonly database: () => Promise<unknown>;
  readonly temporal: () => Promise<unknown>;
};

const liveResponse = z.strictObject({ status: z.literal("ok") }).meta({ id: "Liveness" });
const ALIVE: z.output<typeof liveResponse> = { status: "ok" };

const part = z.enum(["ok", "unreachable"]);
const readyResponse = z
  .strictObject({
    status: z.enum(["ok", "unavailable"]),
    database: part,
    temporal: part.meta({
      description:
        "Registrations are accepted while it is unreachable; what follows from them waits.",
    }),
  })
  .meta({ id: "Readiness" });
type Ready = z.output<typeof readyResponse>;

const outcomeOf = (check: () => Promise<unknown>): Promise<Ready["database"]> =>
  check().then(
    () => "ok",
    () => "unreachable",
  );

const readiness = async ({ database, temporal }: HealthChecks): Promise<Ready> => {
  const [ofDatabase, ofTemporal] = await Promise.all([outcomeOf(database), outcomeOf(temporal)]);
  return {
    status: ofDatabase === "ok" ? "ok" : "unavailable",
    database: ofDatabase,
    temporal: ofTemporal,
  };
};

/** `/healthz`: the process answers. `/readyz`: what it depends on does too. */
export const healthEndpoints = (checks: HealthChecks): readonly Endpoint[] => {
  // Anybody may ask, as often as they like: those who ask at the same time share one look.
  let looking: Promise<Ready> | null = null;
  return [
    publicEndpoint({
      method: "get",
      path: "/healthz",
      description: {
        operationId: "health",
        tag: "operations",
        summary: "Whether the process is alive",
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
        summary: "Whether requests can be served, and which dependency answers",
        otherStatuses: { 503: "The database is unreachable." },
        errors: [],
      },
      schemas: { response: readyResponse },
      examples: { response: { status: "ok", database: "ok", temporal: "ok" } },
      handle: async (ctx) => {
        looking ??= readiness(checks).finally(() => {
          looking = null;
        });
        const ready = await looking;
        ctx.status = ready.status === "ok" ? 200 : 503;
        return ready;
      },
    }),
  ];
};
