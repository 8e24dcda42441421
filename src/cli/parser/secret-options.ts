/**
 * Reads secret options and arguments whose value is `-` from standard input, or at a terminal without echo. A secret in the arguments of a process is
 * visible to other users of the machine, and remains in the history of the shell.
 */
import type { Command, CommandInput, Option } from '../../kernel/api/commands.ts'
import { keyOf } from '../../kernel/api/option-values.ts'
import { invalid } from '../../kernel/base/errors.ts'
import type { ProgramTerminal } from '../terminal/terminal.ts'

const STDIN = '-'

const SECRET_NOTE = '- reads it from standard input, or asks for it without echo'

/** For help and the reference. */
export const summaryOf = ({ summary, isSecret, flags = '' }: Partial<Option> & Pick<Option, 'summary'>): string =>
  `${summary}${isSecret ? `; ${SECRET_NOTE}` : ''}${isRepeatable(flags) ? ' (can be repeated)' : ''}`

export const isRepeatable = (flags: string): boolean => flags.endsWith('...>')

/** For help and the reference: each flag takes one value. */
export const shownFlags = (flags: string): string => flags.replace('...>', '>')

type Values = Pick<CommandInput, 'args' | 'options'>

/** Returns the values with the secret. Rejects an empty one, which could be an empty file. */
export async function withSecrets(
  { arguments: args = [], options = [] }: Pick<Command, 'arguments' | 'options'>,
  given: Values,
  terminal: Pick<ProgramTerminal, 'secret'>,
): Promise<Values> {
  const declared = [
    ...args.map(({ name, isSecret }) => ({ in: 'args', key: name, name, isSecret, parse: undefined }) as const),
    ...options.map(
      ({ flags, isSecret, parse }) =>
        ({ in: 'options', key: keyOf(flags), name: flags.split(' ')[0] ?? '', isSecret, parse }) as const,
    ),
  ]
  const [secret, ...others] = declared.filter((one) => one.isSecret && given[one.in][one.key] === STDIN)
  if (!secret) return given
  const { key, name, parse } = secret
  if (others.length > 0) throw invalid([{ path: name, message: 'Only one value can be read from standard input.' }])
  const text = await terminal.secret(name)
  if (text.trim() === '') throw invalid([{ path: name, message: 'Standard input is empty.' }])
  return { ...given, [secret.in]: { ...given[secret.in], [key]: parse ? parse(text) : text } }
}

export const unlessStdin =
  (parse: NonNullable<Option['parse']>): NonNullable<Option['parse']> =>
  (text) =>
    text === STDIN ? text : parse(text)
