/** Tests shell completion with real shells: the printed script and the tab key. */
import { execFile, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { PROGRAM } from '../src/cli/program.fixture.ts'
import { programPath } from './setup/not-run.ts'

vi.setConfig({ testTimeout: 120_000 })

const run = promisify(execFile)

let directory: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-shells-'))
  const wrapper = `#!/bin/sh\nexec ${process.execPath} --conditions=tenantry-source ${PROGRAM} "$@"\n`
  await writeFile(join(directory, 'tenantry'), wrapper, { mode: 0o755 })
  await mkdir(join(directory, 'work'))
  await writeFile(join(directory, 'work', 'kept'), 'previous content')
  env = { PATH: `${directory}${delimiter}${process.env.PATH}`, HOME: directory, TERM: 'xterm' }
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const scripts = new Map<string, Promise<string>>()

/** Path of the completion script of a shell. */
function scriptFor(shell: string): Promise<string> {
  const script = scripts.get(shell) ?? writeScript(shell)
  scripts.set(shell, script)
  return script
}

async function writeScript(shell: string): Promise<string> {
  const { stdout } = await run(join(directory, 'tenantry'), ['completion', shell], { env })
  const path = join(directory, `completion.${shell}`)
  await writeFile(path, stdout)
  return path
}

/** Lines with a command or a file name for the shell; completion must not run or write them. */
const HARMFUL = [
  'tenantry tenant:show `touch pwned` --js',
  'tenantry tenant:show $(touch pwned) --js',
  'tenantry tenant:show "$(touch pwned)" --js',
  'tenantry tenant:show 2> kept --js',
]
async function harmless(typed: string, completed: string): Promise<void> {
  // Bash does not complete behind these quotes.
  if (!typed.includes('`')) expect(completed).toContain('--json')
  expect(await readdir(join(directory, 'work'))).toEqual(['kept'])
  expect(await readFile(join(directory, 'work', 'kept'), 'utf8')).toBe('previous content')
}

/** Types a line in a terminal, presses tab, then a key that prints the line. */
async function completedInBash(script: string, typed: string): Promise<string> {
  const bash = ['bash', '--norc', '--noprofile', '-i']
  const args = process.platform === 'darwin' ? ['-q', '/dev/null', ...bash] : ['-qec', bash.join(' '), '/dev/null']
  const terminal = spawn('script', args, { env, cwd: join(directory, 'work') })
  const ended = new Promise((resolve) => terminal.once('close', resolve))
  let seen = ''
  terminal.stdout.setEncoding('utf8').on('data', (text) => {
    seen += text
  })
  const says = (words: RegExp) => expect.poll(() => seen, { timeout: 30_000 }).toMatch(words)
  try {
    terminal.stdin.write(
      `bind -x '"\\ew": printf "line:<%s>\\n" "$READLINE_LINE"'; source ${script}; echo is"-"ready\n`,
    )
    await says(/is-ready/)
    terminal.stdin.write(`${typed}\t\x1bw`)
    await says(/line:<(?!%s).*>/)
    return seen.match(/line:<((?!%s).*)>/)?.[1] ?? ''
  } finally {
    terminal.stdin.end('\x15exit\n')
    await ended
  }
}

test.each([
  ['a command with colons', 'tenantry tenant:sh', 'tenantry tenant:show '],
  ['a common prefix', 'tenantry tenant:backup:re', 'tenantry tenant:backup:restore '],
  ['a command that ends with a colon', 'tenantry tenant:secrets:', 'tenantry tenant:secrets:reencrypt '],
  ['an option', 'tenantry doctor --prov', 'tenantry doctor --prove '],
  ['after another command', 'true && tenantry doctor --prov', 'true && tenantry doctor --prove '],
  ['a file name after a redirection', 'tenantry doctor >ke', 'tenantry doctor >kept '],
])('bash completes %s without other programs', async (_, typed, line) => {
  expect(await completedInBash(await scriptFor('bash'), typed)).toBe(line)
})

test.each(HARMFUL)('bash runs and writes nothing of the completed line: %s', async (typed) => {
  await harmless(typed, await completedInBash(await scriptFor('bash'), typed))
})

test('fish completes commands with their descriptions, and options', async () => {
  const script = await scriptFor('fish')
  const completed = async (line: string) =>
    (
      await run(programPath('fish') ?? '', ['-c', `source ${script}; complete -C '${line}'`], {
        env,
        cwd: join(directory, 'work'),
      })
    ).stdout
  expect(await completed('tenantry tenant:migrate:r')).toBe(
    "tenant:migrate:rollback\tRoll back tenants' last migrations\n",
  )
  expect(await completed('tenantry doctor --prov')).toMatch(/^--prove\t/)
  for (const typed of HARMFUL) await harmless(typed, await completed(typed))
  await harmless('', await completed('tenantry tenant:show (touch pwned) --js'))
})

test('zsh completes commands with colons, and options', async () => {
  const script = await scriptFor('zsh')
  // Also in a terminal. The key is bound to completion only: by default, zsh itself expands substitutions in a word.
  const session = (typed: string) => `
    zmodload zsh/zpty
    zpty shell 'zsh -f -i'
    zpty -w shell 'autoload -U compinit; compinit -u -D; source ${script}'
    zpty -w shell 'say() { print -r -- "line:<$BUFFER>" }; zle -N say; bindkey "^X" say; bindkey "^I" complete-word; echo is"-"ready'
    zpty -r shell seen '*is-ready*'
    zpty -w -n shell '${typed}'$'\\t\\x18'
    zpty -r shell seen '*line:<tenantry*>*'
    print -r -- "$seen"`
  const completed = async (typed: string) =>
    (
      await run(programPath('zsh') ?? '', ['-f', '-c', session(typed)], {
        env,
        cwd: join(directory, 'work'),
        timeout: 30_000,
      })
    ).stdout
  expect(await completed('tenantry tenant:migrate:r')).toContain('line:<tenantry tenant:migrate:rollback >')
  expect(await completed('tenantry doctor --prov')).toContain('line:<tenantry doctor --prove >')
  for (const typed of HARMFUL) await harmless(typed, await completed(typed))
  expect(await completed('tenantry tenant:show --of`touch pwned`=')).toContain('line:<')
  expect(await readdir(join(directory, 'work'))).toEqual(['kept'])
})
