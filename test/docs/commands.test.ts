import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import type { Command } from "commander";
import { z } from "zod";
import { buildProgram } from "../../cli/buildProgram.ts";
import { createConnections } from "../../cli/connections.ts";
import { parseConfig } from "../../config/config.ts";
import { systemClock } from "../../domain/clock.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

const PAGES = [
  "README.md",
  "docs/*.md",
  "deploy/helm/impact/README.md",
  "deploy/prometheus/*.yml",
  "bench/*.sh",
];

/** Returns every `impact` command line of a page, from code spans, shell blocks, scripts and the annotations of alerts. */
const readCommandLines = (text: string): readonly string[] => {
  const spans = text.matchAll(/`impact (?<line>[^`]+)`/gu);
  const lines = text
    .replaceAll(/\\\n/gu, " ")
    .matchAll(/^ *(?:[A-Z_]+=\S+ +)*impact (?<line>[a-z][^|>#)\n`]+)/gmu);
  const shell = text.matchAll(/\bimpact -- (?<line>[a-z-][^|>#)\n`]+)/gu);
  const alerts = text.matchAll(/^ +command: impact (?<line>.+)$/gmu);
  return [...spans, ...lines, ...shell, ...alerts].map(({ groups }) => groups?.["line"] ?? "");
};

/** Returns what is wrong with a command line, null if its command and its options exist. */
const checkCommandLine = (program: Command, line: string): string | null => {
  const words = line.split(/[\s[\]]+/u).filter(Boolean);
  let command = program;
  for (const word of words) {
    const next = command.commands.find((each) => each.name() === word);
    if (!next) {
      break;
    }
    command = next;
  }
  const options = new Set(command.options.map(({ long }) => long));
  const unknown = words.filter((word) => word.startsWith("--") && !options.has(word));
  if (command === program) {
    return words[0] === "--help" ? null : `${line}: no such command`;
  }
  if (command.commands.length > 0) {
    return `${line}: not a complete command`;
  }
  return unknown.length === 0 ? null : `${line}: no ${unknown.join(", ")}`;
};

test("every command in the documentation exists, with its options", async (t) => {
  const program = await buildProgram({
    io: { stdin: process.stdin, stdout: process.stdout, stderr: process.stderr },
    connections: createConnections(() => parseConfig({})),
    clock: systemClock,
  });
  const problems: string[] = [];
  let checked = 0;
  for await (const page of glob(PAGES, { cwd: ROOT })) {
    for (const line of readCommandLines(await readFile(join(ROOT, page), "utf8"))) {
      const problem = checkCommandLine(program, line);
      checked += 1;
      problems.push(...(problem === null ? [] : [`${page}: ${problem}`]));
    }
  }
  t.true(checked > 30);
  t.deepEqual(problems, []);
});

test("every npm script in the documentation exists", async (t) => {
  const { scripts } = z
    .object({ scripts: z.record(z.string(), z.string()) })
    .parse(JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")));
  const named = new Set<string>();
  for await (const page of glob([...PAGES, "CONTRIBUTING.md"], { cwd: ROOT })) {
    const text = await readFile(join(ROOT, page), "utf8");
    for (const { groups } of text.matchAll(/\bnpm run (?:-s )?(?<name>[a-z][\w:-]*)/gu)) {
      named.add(groups?.["name"] ?? "");
    }
  }
  t.true(named.size > 8);
  t.deepEqual([...named].filter((name) => scripts[name] === undefined).toSorted(), []);
});
