import type { Writable } from 'node:stream'
import type { Input } from '../../kernel/api/commands.ts'

/** What one run of the program uses of its process; `process` is one. */
export interface ProcessContext {
  readonly env: NodeJS.ProcessEnv
  readonly stdin: Input
  readonly stdout: Output
  readonly stderr: Output
  /** For faults that no code handles. */
  on(event: 'unhandledRejection' | 'uncaughtException', listener: (error: unknown) => void): unknown
}

export type Output = Writable & Screen

type Screen = Partial<Pick<NodeJS.WriteStream, 'isTTY' | 'columns'>>
