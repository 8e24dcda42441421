/** Starts programs in examples/ the way a reader starts them. */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { vi } from 'vitest'

const EXAMPLES = join(import.meta.dirname, '../examples')
const START_TIMEOUT_MS = 90_000

export interface Example {
  readonly child: ChildProcess
  readonly url: string
  output(): string
}

/** Resolves when the program has printed its address. */
export async function startExample(program: string, env: NodeJS.ProcessEnv): Promise<Example> {
  const child = spawn(process.execPath, ['--conditions=tenantry-source', join(EXAMPLES, program)], {
    env: { ...process.env, ...env, PORT: '0' },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text) => {
      output += text
    })
  }
  const url = () => /^http:\/\/\S+$/m.exec(output)?.[0]
  await vi.waitUntil(() => url() !== undefined || child.exitCode !== null, { timeout: START_TIMEOUT_MS })
  const at = url()
  if (!at) throw new Error(`examples/${program} did not start:\n${output}`)
  return { child, url: at, output: () => output }
}
