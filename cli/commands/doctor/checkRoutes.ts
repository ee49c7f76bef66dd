import { findProxy } from "../../../program/outgoing.ts";
import { findTemporalProxy, readTemporalConfig } from "../../../program/temporal/temporalClient.ts";
import type { CliContext } from "../../context.ts";
import { check, ok } from "./check.ts";
import type { Finding } from "./check.ts";

/** Names a proxy without its password. */
const describeRoute = (proxy: URL | null): string =>
  proxy === null ? "directly" : `through ${proxy.protocol}//${proxy.host}`;

/** Shows how this process reaches other companies and Temporal: the proxies are settings of its environment. */
export const checkRoutes = ({ connections }: CliContext): Promise<Finding> =>
  check("routes", () => {
    const config = connections.config();
    const { address } = readTemporalConfig().connectionOptions;
    const companies = [
      { name: "Stripe", isUsed: config.STRIPE_SECRET_KEY, url: config.STRIPE_API_BASE },
      { name: "Every.org", isUsed: config.EVERYORG_API_KEY, url: config.EVERYORG_API_BASE },
      { name: "Change", isUsed: config.CHANGE_SECRET_KEY, url: config.CHANGE_API_BASE },
      { name: "Pledge", isUsed: config.PLEDGE_API_KEY, url: config.PLEDGE_API_BASE },
      { name: "TreeMapper", isUsed: config.TREEMAPPER_API_KEY, url: config.TREEMAPPER_API_BASE },
    ].filter(({ isUsed }) => isUsed !== undefined);
    const routes = [
      { name: "Temporal", proxy: findTemporalProxy(address) },
      ...companies.map(({ name, url }) => ({ name, proxy: findProxy(url) })),
    ];
    const parts = routes.map(({ name, proxy }) => `${name} ${describeRoute(proxy)}`);
    return Promise.resolve(ok(`${parts.join(", ")}; webhooks and the database directly`));
  });
