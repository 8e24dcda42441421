/** Makes `dist/` from `src/`: JavaScript and its types. What a page of ours needs beside them is copied. */
import { execFileSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const root = import.meta.dirname
const vendor = join('http', 'pages', 'vendor')

rmSync(join(root, 'dist'), { recursive: true, force: true })
execFileSync(
  process.execPath,
  [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', join(root, 'tsconfig.build.json')],
  {
    stdio: 'inherit',
  },
)
cpSync(join(root, 'src', vendor), join(root, 'dist', vendor), { recursive: true })
