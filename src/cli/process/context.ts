/** Declares the part of `process` that one run of the program uses. */
import type { Writable } from 'node:stream'
import type { Input } from '../../kernel/api/commands.ts'

export interface ProcessContext {
  readonly env: NodeJS.ProcessEnv
  readonly stdin: Input
  readonly stdout: Output
  readonly stderr: Output
  /** Listens for unhandled rejections and uncaught exceptions. */
  on(event: 'unhandledRejection' | 'uncaughtException', listener: (error: unknown) => void): unknown
}

export type Output = Writable & Screen

type Screen = Partial<Pick<NodeJS.WriteStream, 'isTTY' | 'columns'>> & { readonly fd?: number }
