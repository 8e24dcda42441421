/** Completion as a person has it: the script that the program prints, read by the shell itself, and the tab key. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { PROGRAM } from '../src/cli/program.fixture.ts'
import { programPath } from './setup/not-run.ts'

vi.setConfig({ testTimeout: 60_000 })

const run = promisify(execFile)

let directory: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-shells-'))
  const wrapper = `#!/bin/sh\nexec ${process.execPath} --conditions=tenantry-source ${PROGRAM} "$@"\n`
  await writeFile(join(directory, 'tenantry'), wrapper, { mode: 0o755 })
  env = { PATH: `${directory}${delimiter}${process.env.PATH}`, HOME: directory, TERM: 'xterm' }
})
afterAll(() => rm(directory, { recursive: true, force: true }))

/** Where the script is that the program prints for a shell. */
async function scriptFor(shell: string): Promise<string> {
  const { stdout } = await run(join(directory, 'tenantry'), ['completion', shell], { env })
  const path = join(directory, `completion.${shell}`)
  await writeFile(path, stdout)
  return path
}

test('fish completes commands, with what they are for, and options', async () => {
  const script = await scriptFor('fish')
  const completed = async (line: string) =>
    (await run(programPath('fish') ?? '', ['-c', `source ${script}; complete -C '${line}'`], { env })).stdout
  expect(await completed('tenantry tenant:migrate:r')).toBe(
    "tenant:migrate:rollback\tTake back tenants' last migrations\n",
  )
  expect(await completed('tenantry doctor --pro')).toMatch(/^--prove\t/)
})

test('zsh completes commands in spite of their colons, and options', async () => {
  const script = await scriptFor('zsh')
  // In a terminal of its own: a line is typed, the tab key pressed, and then a key that says what the line is by then.
  const session = (typed: string) => `
    zmodload zsh/zpty
    zpty shell 'zsh -f -i'
    zpty -w shell 'autoload -U compinit; compinit -u -D; source ${script}'
    zpty -w shell 'say() { print -r -- "line:<$BUFFER>" }; zle -N say; bindkey "^X" say; echo is"-"ready'
    zpty -r shell seen '*is-ready*'
    zpty -w -n shell '${typed}'$'\\t\\x18'
    zpty -r shell seen '*line:<tenantry*>*'
    print -r -- "$seen"`
  const completed = async (typed: string) =>
    (await run(programPath('zsh') ?? '', ['-f', '-c', session(typed)], { env, timeout: 30_000 })).stdout
  expect(await completed('tenantry tenant:migrate:r')).toContain('line:<tenantry tenant:migrate:rollback >')
  expect(await completed('tenantry doctor --pro')).toContain('line:<tenantry doctor --prove >')
})
