/** Applies one mutant to a copy of the source, runs the proof, and reverts the copy. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isSql, type Mutant } from './mutant.ts'

const ENDS_WITHIN_MS = 240_000
const ISOLATION = 'src/drivers/isolation'
const SQL_PROOF = ['test/mutants/sql.test.ts']

export type Verdict = 'killed' | 'survived' | 'not there' | 'broken'

export interface Proof {
  readonly files: readonly string[]
  /** Part of the names of the tests that count. */
  readonly name: string | undefined
}

export interface Outcome {
  readonly mutant: Mutant
  readonly kind: string | undefined
  readonly verdict: Verdict
  /** Killing test, or the error. */
  readonly by: string
  readonly elapsedMs: number
}

export interface ProofEnvironment {
  readonly tree: string
  readonly postgresUrl: string
}

export function proofOf(mutant: Mutant | undefined, kind: string | undefined): Proof {
  if (mutant && isSql(mutant)) return { files: kind === undefined ? [] : SQL_PROOF, name: kind }
  if (mutant?.tests) return { files: mutant.tests, name: undefined }
  return { files: kind === undefined ? [] : driverProof(kind), name: kind }
}

/** In order: the first file is quick, the leak fuzzer in `suite.slow.test.ts` is slow. */
function driverProof(kind: string): readonly string[] {
  const [driver, mode = 'batch'] = kind.split(', ')
  const suites =
    mode === 'batch' ? [`traps.${driver}.test.ts`, `suite.${driver}.test.ts`, 'leak.test.ts'] : ['traps.slow.test.ts']
  return [...suites, 'suite.slow.test.ts', 'named-statements.slow.test.ts'].map((file) => `${ISOLATION}/${file}`)
}

export async function tryMutant(
  mutant: Mutant,
  kind: string | undefined,
  { tree, postgresUrl }: ProofEnvironment,
): Promise<Outcome> {
  const started = performance.now()
  const outcome = (verdict: Verdict, by: string): Outcome => ({
    mutant,
    kind,
    verdict,
    by,
    elapsedMs: performance.now() - started,
  })
  const proof = proofOf(mutant, kind)
  if (isSql(mutant)) {
    const { verdict, by } = await runProof(proof, { tree, postgresUrl }, mutant.name)
    return outcome(verdict, by)
  }
  const source = join(tree, 'src', mutant.file)
  const original = readFileSync(source, 'utf8')
  const found = original.split(mutant.replace).length - 1
  if (found !== 1) return outcome('not there', `the text is in ${mutant.file} ${found} times`)
  const changed = original.replace(mutant.replace, () => mutant.by)
  try {
    writeFileSync(source, changed)
    const { verdict, by } = await runProof(proof, { tree, postgresUrl })
    return outcome(verdict, by)
  } finally {
    writeFileSync(source, original)
  }
}

interface Noticed {
  readonly verdict: Verdict
  readonly by: string
  /** Failure message of the test. */
  readonly message?: string | undefined
}

interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly message: string
    readonly assertionResults: readonly {
      readonly fullName: string
      readonly status: string
      readonly failureMessages?: readonly string[]
    }[]
  }[]
}

const running = new Set<number>()

/** Ends all running proofs with their processes. */
export function endProofs(): void {
  for (const pid of running) process.kill(-pid, 'SIGKILL')
}

/** Runs the files one by one until a test fails. @param sqlMutant mutant to apply to the databases */
export async function runProof(
  { files, name }: Proof,
  environment: ProofEnvironment,
  sqlMutant = '',
): Promise<Noticed> {
  for (const file of files) {
    const noticed = await runFile(file, name, environment, sqlMutant)
    if (noticed.verdict !== 'survived') return noticed
  }
  return { verdict: 'survived', by: 'nothing noticed it' }
}

async function runFile(
  file: string,
  name: string | undefined,
  { tree, postgresUrl }: ProofEnvironment,
  sqlMutant: string,
): Promise<Noticed> {
  const output = join(tree, 'report.json')
  rmSync(output, { force: true })
  const vitest = spawn(
    process.execPath,
    [
      join(tree, 'node_modules/vitest/vitest.mjs'),
      ...['run', file, '--bail=1', '--maxWorkers=1', '--reporter=json', `--outputFile=${output}`],
      ...['--testTimeout=30000', '--hookTimeout=20000', ...(name === undefined ? [] : ['-t', name])],
    ],
    {
      cwd: tree,
      env: { ...process.env, TENANTRY_TEST_POSTGRES_URL: postgresUrl, TENANTRY_SQL_MUTANT: sqlMutant },
      stdio: 'ignore',
      detached: true,
    },
  )
  const pid = vitest.pid ?? 0
  running.add(pid)
  const isFinished = Promise.withResolvers<number | null>()
  vitest.on('exit', isFinished.resolve)
  const timer = setTimeout(() => process.kill(-pid, 'SIGKILL'), ENDS_WITHIN_MS)
  const code = await isFinished.promise
  clearTimeout(timer)
  running.delete(pid)
  if (code === null) return { verdict: 'killed', by: `the proof does not end within ${ENDS_WITHIN_MS / 1_000} s` }
  if (!existsSync(output)) return { verdict: 'broken', by: 'Vitest left no report' }
  const { testResults } = JSON.parse(readFileSync(output, 'utf8')) as Report
  const all = testResults.flatMap(({ assertionResults }) => assertionResults)
  const failed = all.find(({ status }) => status === 'failed')
  if (failed) {
    const message = failed.failureMessages?.join('\n')
    const isLate = message?.includes('timed out') ?? false
    return { verdict: 'killed', by: `${failed.fullName.trim()}${isLate ? ' (does not end)' : ''}`, message }
  }
  const [broken] = testResults.filter(({ message }) => message !== '')
  const why = broken?.message.split('\n')[0] ?? `Vitest ended with ${code}`
  if (code !== 0 && all.length > 0) return { verdict: 'killed', by: `before the tests of ${file}: ${why}` }
  if (code !== 0) return { verdict: 'broken', by: why }
  if (!all.some(({ status }) => status === 'passed')) return { verdict: 'broken', by: 'no test was run' }
  return { verdict: 'survived', by: 'nothing noticed it' }
}
