import type { Client } from "@temporalio/client";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { openNamespace, startProgram } from "../support/programs.ts";

type Settings = Readonly<Record<string, string>>;

type Program = Awaited<ReturnType<typeof startProgram>>;

/** An organization with a subscription at Stripe. */
type Subscriber = {
  readonly id: string;
  readonly apiKeyProd: string;
  readonly apiKeyTest: string;
  readonly customerId: string;
};

type Deployment = {
  readonly control: StripeDouble["control"];
  readonly client: Client;
  readonly subscribers: readonly Subscriber[];
  /** The first of the subscribers, and the only one unless the test asks for more. */
  readonly subscriber: Subscriber;
  readonly startApi: (settings?: Settings) => Promise<Program>;
  readonly startWorker: (settings?: Settings) => Promise<Program>;
  /** Sends JSON to an API with the subscriber's live key. */
  readonly post: (
    api: Program,
    path: string,
    body: unknown,
    headers?: Settings,
  ) => Promise<Response>;
  /** Returns the subscriber's units billed by Stripe, over all seconds. */
  readonly billed: () => number;
};

/** Prepares organizations at a double of Stripe, and the API and the worker as separate processes with their own namespace. */
export const deployAtStripe = async (
  t: DatabaseTest,
  { organizations = 1 }: { readonly organizations?: number } = {},
): Promise<Deployment> => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble(t);
  const { control } = double;
  const subscribe = async (): Promise<Subscriber> => {
    const { customerId, subscriptionId } = control.addSubscriber({});
    const organization = await createTestOrganization(db, {
      stripeCustomerId: customerId,
      stripeSubscriptionId: subscriptionId,
    });
    return { ...organization, customerId };
  };
  const subscriber = await subscribe();
  const others = await Promise.all(Array.from({ length: organizations - 1 }, subscribe));
  const { namespace, client } = await openNamespace(t);
  const start = (
    module: Parameters<typeof startProgram>[1],
    settings: Settings = {},
  ): Promise<Program> =>
    startProgram(t, module, {
      DATABASE_URL: databaseUrl,
      TEMPORAL_NAMESPACE: namespace,
      ...double.env,
      ...settings,
    });
  return {
    control,
    client,
    subscribers: [subscriber, ...others],
    subscriber,
    startApi: (settings) => start("api/main.ts", settings),
    startWorker: (settings) => start("worker/main.ts", settings),
    post: ({ urls }, path, body, headers = {}) =>
      fetch(`${urls["standalone"]}${path}`, {
        method: "POST",
        headers: {
          Authorization: subscriber.apiKeyProd,
          "Content-Type": "application/json",
          ...headers,
        },
        body: JSON.stringify(body),
      }),
    billed: () =>
      control
        .usage({ customerId: subscriber.customerId })
        .reduce((sum, { value }) => sum + value, 0),
  };
};
