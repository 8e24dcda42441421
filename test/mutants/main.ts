/**
 * `npm run test:mutants [-- --only <text> --driver <name> --lanes 2 --trust --write]`: applies each mutant to a copy of
 * the source (or to a database) and runs the proof there. Prints the killing test and the score; exits with 1 if a
 * mutant survives, does not apply, or does not run. `--write` lists the mutants in README.md.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { startEmbeddedPostgres } from '../../src/service/embedded-postgres.ts'
import { MUTANTS } from './all.ts'
import { DRIVERS, driversOf, isSql, kindsOf, type Mutant } from './mutant.ts'
import { endProofs, type Outcome, type Proof, proofOf, runProof, tryMutant } from './proof.ts'
import { writeList } from './report.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** Files of the repository that the proof needs. */
const COPIED = ['src', 'test/setup', 'test/mutants', 'package.json', 'tsconfig.json', 'vitest.config.ts']

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    driver: { type: 'string', default: '' },
    lanes: { type: 'string', default: '2' },
    /** Skips the check that the proof passes without a mutant. */
    trust: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
})
interface Attempt {
  readonly mutant: Mutant
  /** Absent if the mutant names its own tests. */
  readonly kind: string | undefined
}

const attempts: readonly Attempt[] = MUTANTS.filter(({ name }) => name.includes(values.only)).flatMap(
  (mutant): Attempt[] => {
    const kinds = kindsOf(mutant).filter((kind) => kind.startsWith(values.driver))
    if (kinds.length > 0) return kinds.map((kind) => ({ mutant, kind }))
    return values.driver === '' ? [{ mutant, kind: undefined }] : []
  },
)
const directory = mkdtempSync(join(tmpdir(), 'tenantry-mutants-'))
const server = await startEmbeddedPostgres({
  directory: join(directory, 'postgres'),
  password: 'mutants',
  settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '300' },
})
const outcomes: Outcome[] = []
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    endProofs()
    await server.stop()
    rmSync(directory, { recursive: true, force: true })
    process.exit(130)
  })
}
try {
  const trees = Array.from({ length: Number(values.lanes) }, (_, worker) => copyTree(join(directory, `tree-${worker}`)))
  if (!values.trust) await forEachTree(proofs(), trees, assertProofPasses)
  await forEachTree(attempts, trees, async ({ mutant, kind }, tree) => {
    const outcome = await tryMutant(mutant, kind, { tree, postgresUrl: server.url })
    outcomes.push(outcome)
    const seconds = Math.round(outcome.elapsedMs / 1_000)
    console.log(`${outcome.verdict.padEnd(9)} ${mutant.name} (${kind ?? 'all drivers'}), ${seconds} s: ${outcome.by}`)
  })
} finally {
  await server.stop()
  rmSync(directory, { recursive: true, force: true })
}

const bad = outcomes.filter(({ verdict }) => verdict !== 'killed')
for (const driver of DRIVERS) {
  const mutants = MUTANTS.filter((mutant) => driversOf(mutant).includes(driver))
  const isKilled = (mutant: Mutant) =>
    outcomes
      .filter((one) => one.mutant === mutant && (one.kind === undefined || one.kind.startsWith(driver)))
      .every(({ verdict }) => verdict === 'killed')
  const tried = mutants.filter((mutant) => outcomes.some((one) => one.mutant === mutant))
  const killed = tried.filter(isKilled)
  if (tried.length > 0)
    console.log(`${driver}: ${killed.length} of ${tried.length} mutants killed (of ${mutants.length})`)
}
for (const { verdict, mutant, kind, by } of bad) console.log(`${verdict}: ${mutant.name} (${kind ?? 'all'}): ${by}`)
if (values.write) writeList(join(import.meta.dirname, 'README.md'), MUTANTS, outcomes)
if (bad.length > 0) process.exitCode = 1

function copyTree(tree: string): string {
  mkdirSync(join(tree, 'test'), { recursive: true })
  for (const path of COPIED) cpSync(join(ROOT, path), join(tree, path), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'))
  return tree
}

async function forEachTree<T>(
  all: readonly T[],
  trees: readonly string[],
  work: (one: T, tree: string) => Promise<void>,
) {
  const left = [...all]
  const worker = async (tree: string) => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await work(next, tree)
  }
  await Promise.all(trees.map(worker))
}

/** Proofs of all mutants. */
function proofs(): Proof[] {
  const own = attempts.map(({ mutant, kind }) => proofOf(mutant, kind))
  const kinds = new Set(attempts.filter(({ mutant }) => isSql(mutant) || !mutant.tests).map(({ kind }) => kind))
  const files = new Set(own.filter(({ name }) => name === undefined).flatMap((proof) => proof.files))
  return [
    ...[...kinds].map((kind) => proofOf(undefined, kind)),
    ...[...files].map((file) => ({ files: [file], name: undefined })),
  ]
}

/** A proof that fails without a mutant would kill every mutant. */
async function assertProofPasses(proof: Proof, tree: string): Promise<void> {
  const started = performance.now()
  const { verdict, by, message } = await runProof(proof, { tree, postgresUrl: server.url })
  if (verdict !== 'survived') throw new Error(`the proof fails without a mutant: ${verdict} ${by}`, { cause: message })
  const seconds = Math.round((performance.now() - started) / 1_000)
  console.log(`unchanged ${proof.name ?? proof.files.join(' ')}: passes in ${seconds} s`)
}
