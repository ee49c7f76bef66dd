import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { openNamespace, startProgram } from "../support/programs.ts";

type Settings = Readonly<Record<string, string>>;

type Program = Awaited<ReturnType<typeof startProgram>>;

/** Prepares organizations at a double of Stripe, and the API and the worker as separate processes with their own namespace. */
export const deployAtStripe = async (t: DatabaseTest, { organizations = 1 } = {}) => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble(t);
  const { control } = double;
  const subscribe = async () => {
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
  const own = { DATABASE_URL: databaseUrl, TEMPORAL_NAMESPACE: namespace, ...double.env };
  const start = (module: Parameters<typeof startProgram>[1], settings: Settings = {}) =>
    startProgram(t, module, { ...own, ...settings });
  return {
    control,
    client,
    subscribers: [subscriber, ...others],
    /** The first of the subscribers, and the only one unless the test asks for more. */
    subscriber,
    startApi: (settings?: Settings) => start("api/main.ts", settings),
    startWorker: (settings?: Settings) => start("worker/main.ts", settings),
    /** Sends JSON to an API with the subscriber's live key. */
    post: (api: Program, path: string, body: unknown, headers: Settings = {}) =>
      api.post(path, body, { Authorization: subscriber.apiKeyProd, ...headers }),
    /** Returns the subscriber's units billed by Stripe, over all seconds. */
    billed: (): number => control.units({ customerId: subscriber.customerId }),
  };
};
