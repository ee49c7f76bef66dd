import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import {
  passesOn,
  reportsLostResponses,
  reportsOutage,
  routesByCell,
  SECRETS,
  streamsLists,
} from "./proxyCases.ts";
import type { ProxyKind } from "./startProxy.ts";

/* Runs Caddy with deploy/caddy/Caddyfile in front of both interfaces. */

const test = testWithDatabase();
const PROGRAM = process.env["TEST_CADDY"] ?? "/usr/bin/caddy";

const CADDY: ProxyKind = {
  config: "caddy/Caddyfile",
  replacements: ({ port, plainPort, upstreams, inFolder }) => {
    const tls = `tls ${inFolder("cert.pem")} ${inFolder("key.pem")}`;
    return {
      // Certificates come from a file, and Caddy's own API stays closed.
      "\tservers {": "\tadmin off\n\tauto_https disable_redirects\n\tservers {",
      "\nimpact.example.org {": `\nimpact.example.org:${port} {\n\tbind 127.0.0.1\n\t${tls}`,
      "\nstore.impact.example.org {": `\nstore.impact.example.org:${port} {\n\tbind 127.0.0.1\n\t${tls}`,
      "http://impact.example.org, http://store.impact.example.org {": `http://:${plainPort} {\n\tbind 127.0.0.1`,
      "127.0.0.1:8080": upstreams.standalone,
      "127.0.0.1:8081": upstreams.store,
    };
  },
  cellReplacements: ({ standalone, store }) => ({
    "\t#@eu1": "\t@eu1",
    "\t#reverse_proxy @eu1": "\treverse_proxy @eu1",
    "\t#\timport upstream": "\t\timport upstream",
    "\t#}": "\t}",
    "10.1.0.1:8080": standalone,
    "10.1.0.1:8081": store,
  }),
  prepare: (_place, configFile) =>
    Promise.resolve([PROGRAM, "run", "--config", configFile, "--adapter", "caddyfile"]),
  stopSignal: "SIGKILL",
};

/** Caddy that logs each request. Older releases log none otherwise, newer ones those whose responses break off. */
const VERBOSE: ProxyKind = {
  ...CADDY,
  replacements: (place) => ({
    ...CADDY.replacements(place),
    "format filter": "level DEBUG\n\t\tformat filter",
  }),
};

test("Caddy passes on what both interfaces need, and logs neither keys nor queries", async (t) => {
  const { call, logged } = await passesOn(t, VERBOSE);
  t.is((await call("standalone", "/healthz")).headers["server"], undefined);
  await eventually(() => logged().includes('"uri":"/app/api/verify'));
  t.notRegex(logged(), SECRETS);
});

test("Caddy returns its own errors in the form of the interface", (t) =>
  reportsOutage(t, CADDY, 503));

test("Caddy does not report a request without a response as unexecuted", (t) =>
  reportsLostResponses(t, CADDY));

test("Caddy sends each request to its cell", (t) => routesByCell(t, CADDY));

test("Caddy does not collect lists", (t) => streamsLists(t, CADDY));
