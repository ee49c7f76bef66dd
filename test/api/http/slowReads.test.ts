import { z } from "zod";
import { SLOW_READS } from "../../../api/http/slowReads.ts";
import { startStoreApi } from "../../stores/startStoreApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import { startStandaloneApi } from "../startStandaloneApi.ts";

const test = testWithDatabase();

const description = z.looseObject({
  paths: z.record(
    z.string(),
    z.record(
      z.string(),
      z.looseObject({ parameters: z.array(z.looseObject({ name: z.string() })).default([]) }),
    ),
  ),
});

test("the slow reads are endpoints of the APIs and have the parameters that make them slow", async (t) => {
  const apis = [await startStandaloneApi(t, t.context), await startStoreApi(t, t.context)];
  const parameters = new Map<string, readonly string[]>();
  for (const { url } of apis) {
    const { paths } = description.parse(await (await fetch(`${url}/openapi.json`)).json());
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        parameters.set(
          `${method} ${path}`,
          operation.parameters.map(({ name }) => name),
        );
      }
    }
  }

  for (const [endpoint, slow] of Object.entries(SLOW_READS)) {
    const known = parameters.get(endpoint.replaceAll(/:(\w+)/gu, "{$1}"));
    t.truthy(known, endpoint);
    for (const name of slow === "any" ? [] : slow) {
      t.true(known?.includes(name), `${endpoint}: ${name}`);
    }
  }
});
