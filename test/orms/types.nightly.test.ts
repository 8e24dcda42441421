/** Compiles the tests of libraries with the types of these libraries. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const COMPILER = join(import.meta.dirname, '../../node_modules/typescript/bin/tsc')
const LIMIT_MS = 600_000

test(
  'the tests of libraries have no error of types',
  () => {
    const argv = [COMPILER, '-p', import.meta.dirname, '--pretty', 'false']
    const { status, stdout } = spawnSync(process.execPath, argv, { encoding: 'utf8' })
    expect({ status, stdout }).toEqual({ status: 0, stdout: '' })
  },
  LIMIT_MS,
)
