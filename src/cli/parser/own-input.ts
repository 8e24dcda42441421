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
  /**
   * Loads the service's configuration. Rejects with a ConfigurationError that lists all errors.
   *
   * @param isService whether the address and the admin token of the service are needed; default false
   */
  readonly loadConfig: (isService?: boolean) => Promise<ServiceConfig>
  readonly openTenancy: typeof openTenancy
  /** Value of `--profile`. */
  readonly profile: string | undefined
  /** The remote service to run on; undefined: the database. */
  readonly remote: () => Promise<RemoteTarget | undefined>
}
