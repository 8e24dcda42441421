/**
 * Reads secret options whose value is `-` from standard input, or at a terminal without echo. A secret in the arguments of a process is
 * visible to other users of the machine, and remains in the history of the shell.
 */
import type { Command, Option } from '../../kernel/api/commands.ts'
import { keyOf } from '../../kernel/api/option-values.ts'
import { invalid } from '../../kernel/base/errors.ts'
import type { ProgramTerminal } from '../terminal/terminal.ts'

const STDIN = '-'

/** For help and the reference. */
export const SECRET_NOTE = '- reads it from standard input, or asks for it without echo'

type Values = Readonly<Record<string, any>>

/** Returns the options with the secrets. Rejects an empty one, which could be an empty file. */
export async function withSecrets(
  { options: declared = [] }: Pick<Command, 'options'>,
  given: Values,
  terminal: Pick<ProgramTerminal, 'secret'>,
): Promise<Values> {
  const [secret, ...others] = declared.filter(({ flags, isSecret }) => isSecret && given[keyOf(flags)] === STDIN)
  if (!secret) return given
  const name = secret.flags.split(' ')[0] ?? ''
  if (others.length > 0) throw invalid([{ path: name, message: 'Only one option can read standard input.' }])
  const text = await terminal.secret(name)
  if (text.trim() === '') throw invalid([{ path: name, message: 'Standard input is empty.' }])
  return { ...given, [keyOf(secret.flags)]: secret.parse ? secret.parse(text) : text }
}

export const unlessStdin =
  (parse: NonNullable<Option['parse']>): NonNullable<Option['parse']> =>
  (text) =>
    text === STDIN ? text : parse(text)
