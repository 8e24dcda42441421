/** Declares the input of the program's own commands. */
import type { CommandInput } from '../../kernel/api/commands.ts'
import type { ServiceConfig } from '../../service/config.ts'
import type { openTenancy } from '../../service/main.ts'
import type { ProcessContext } from '../process/context.ts'
import type { RemoteTarget } from '../remote/target.ts'
import type { ProgramTerminal } from '../terminal/terminal.ts'

export interface OwnInput extends CommandInput {
  readonly terminal: ProgramTerminal
  readonly context: ProcessContext
  /** Loads the service's configuration. Rejects with a ConfigurationError that lists all errors. */
  readonly loadConfig: () => Promise<ServiceConfig>
  readonly openTenancy: typeof openTenancy
  /** Value of `--profile`. */
  readonly profile: string | undefined
  /** The remote service to run on; undefined: the database. */
  readonly remote: () => Promise<RemoteTarget | undefined>
}
