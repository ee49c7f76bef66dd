import { Argument } from "@commander-js/extra-typings";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Define } from "../command.ts";

const HELP = `
Add to ~/.bashrc or ~/.zshrc:
  eval "$(impact completion bash)"`;

type Completion = { readonly path: string; readonly words: readonly string[] };

const namesOf = (command: CommandUnknownOpts): readonly string[] => [
  command.name(),
  ...command.aliases(),
];

const listCompletions = (command: CommandUnknownOpts, path = ""): readonly Completion[] => [
  {
    path,
    words: [
      ...command.commands.flatMap(namesOf),
      ...command.options.flatMap(({ long }) => long ?? []),
      "--help",
    ],
  },
  ...command.commands.flatMap((subcommand) =>
    namesOf(subcommand).flatMap((name) => listCompletions(subcommand, `${path} ${name}`)),
  ),
];

/** Returns a script of bash, which zsh runs, too. Where the words of a command line are no command, files are completed. */
const scriptOf = (program: CommandUnknownOpts): string => {
  const completions = listCompletions(program);
  const paths = completions.slice(1).map(({ path }) => `"${path}"`);
  const cases = completions.map(
    ({ path, words }) => `    "${path}") words="${words.join(" ")}" ;;`,
  );
  return `_impact() {
  local word words path=
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "$path $word" in
      ${paths.join("|")}) path="$path $word" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$2"))
}
complete -o default -F _impact impact
`;
};

export const defineCompletionCommand: Define = (command, { io }) => {
  command
    .addArgument(new Argument("<shell>").choices(["bash", "zsh"]))
    .addHelpText("after", HELP)
    .action((shell) => {
      const start = shell === "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "";
      io.stdout.write(command.parent ? start + scriptOf(command.parent) : "");
    });
};
