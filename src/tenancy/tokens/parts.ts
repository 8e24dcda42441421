/** API tokens and browser sessions as parts of a tenancy. */
import type { AnyOperation } from '../../kernel/api/operation.ts'
import { commandsOf } from '../../kernel/api/projection.ts'
import type { Part } from '../../kernel/part-definition.ts'
import { sessionOperations, tokenOperations } from './operations.ts'
import { Sessions } from './sessions.ts'
import { tables } from './tables.ts'
import { Tokens } from './tokens.ts'

interface Dependencies {
  readonly configuration: {
    readonly operations: readonly AnyOperation[]
    readonly staleForSeconds?: number | undefined
  }
}

export const tokensPart: Part<'tokens', Tokens, Dependencies> = {
  name: 'tokens',
  tables,
  service: (kernel, { configuration }) => new Tokens(kernel, configuration),
  start: (tokens) => tokens.start(),
  operations: tokenOperations,
  commands: commandsOf(tokenOperations),
  stop: (tokens) => tokens.stop(),
}

export const sessionsPart: Part<'sessions', Sessions, Dependencies> = {
  name: 'sessions',
  service: (kernel, { configuration }) => new Sessions(kernel, configuration),
  start: (sessions) => sessions.start(),
  operations: sessionOperations,
  commands: commandsOf(sessionOperations),
  stop: (sessions) => sessions.stop(),
}
