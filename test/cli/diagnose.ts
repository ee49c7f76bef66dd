import { z } from "zod";
import { readJson, runImpact } from "./runImpact.ts";
import type { Run } from "./runImpact.ts";

const findings = z.array(
  z.strictObject({ check: z.string(), status: z.string(), detail: z.string() }),
);
type Finding = z.output<typeof findings>[number];

/** Runs doctor, with these settings or as a command that has its own, and returns what it finds. */
export const diagnose = async (
  given: Readonly<Record<string, string>> | ((...args: readonly string[]) => Promise<Run>),
): Promise<{
  readonly exitCode: number;
  readonly list: readonly Finding[];
  readonly find: (name: string) => Finding | undefined;
  readonly of: (name: string) => string;
}> => {
  const args = ["doctor", "--json"];
  const run = await (typeof given === "function"
    ? given(...args)
    : runImpact(args, { env: given }));
  const list = findings.parse(readJson(run));
  const find = (name: string) => list.find(({ check }) => check === name);
  return {
    exitCode: run.exitCode,
    list,
    find,
    of: (name) => {
      const finding = find(name);
      return finding ? `${finding.status}: ${finding.detail}` : "";
    },
  };
};
