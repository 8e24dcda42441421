/** Input of the program's own commands, in addition to the input of every command. */
import type { CommandInput } from '../../kernel/api/commands.ts'
import type { ServiceConfig } from '../../service/config.ts'
import type { openTenancy } from '../../service/main.ts'
import type { ProcessContext } from '../process/context.ts'
import type { ProgramTerminal } from '../terminal/terminal.ts'

export interface OwnInput extends CommandInput {
  readonly terminal: ProgramTerminal
  readonly context: ProcessContext
  /** The service's own configuration; throws ConfigurationError with every fault. */
  readonly loadConfig: () => Promise<ServiceConfig>
  readonly openTenancy: typeof openTenancy
}
