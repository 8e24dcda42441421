/** Texts of the console are in the files `text.ts` of its modules, so that a translation finds them all. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'vite'
import { expect, test } from 'vitest'

const SOURCE = join(import.meta.dirname, '../../src')
const FILES = globSync('{console,tenants/console,satellites/*/console}/**/*.{ts,tsx}', { cwd: SOURCE })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => !/(^|[/-])text\.ts$/.test(file) && !/\.(test|fixture)\.ts$|\.d\.ts$/.test(file))

/** Attributes and members whose strings are shown. */
const SHOWN =
  /^(aria-label|aria-description|aria-roledescription|aria-valuetext|title|placeholder|alt|label|hint|description|submit|confirm|done|none|all|reason|note|text|detail|message)$/
/** Samples of values, and names of formats: in every language the same. */
const SAMPLES = ['https://', '#1a2b3c', 'order.paid', 'tenants.*', 'curl', 'TypeScript', 'JSON']

interface Node {
  readonly type: string
  readonly start: number
  readonly [member: string]: any
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'
const isText = (value: unknown): boolean =>
  typeof value === 'string' && /\p{L}/u.test(value) && !SAMPLES.includes(value.trim())

/** Strings that an expression can result in: also those of its branches. */
function resultsOf(node: Node | null | undefined): Node[] {
  switch (node?.type) {
    case 'Literal':
    case 'JSXText':
      return isText(node.value) ? [node] : []
    case 'TemplateLiteral':
      return [...node.quasis.filter(({ value }: Node) => isText(value.cooked)), ...node.expressions.flatMap(resultsOf)]
    case 'JSXExpressionContainer':
    case 'ParenthesizedExpression':
    case 'TSAsExpression':
    case 'TSNonNullExpression':
      return resultsOf(node.expression)
    case 'ConditionalExpression':
      return [...resultsOf(node.consequent), ...resultsOf(node.alternate)]
    case 'LogicalExpression':
    case 'BinaryExpression':
      return node.operator === '+' || node.type === 'LogicalExpression'
        ? [...resultsOf(node.left), ...resultsOf(node.right)]
        : []
    default:
      return []
  }
}

/** Shown strings of one node, without those of the nodes below it. */
function shownBy(node: Node): Node[] {
  if (node.type === 'JSXElement' || node.type === 'JSXFragment') return node.children.flatMap(resultsOf)
  if (node.type === 'JSXAttribute') return SHOWN.test(node.name.name) ? resultsOf(node.value) : []
  if (node.type === 'Property') return SHOWN.test(node.key.name ?? node.key.value) ? resultsOf(node.value) : []
  return []
}

const nodesOf = (value: unknown): Node[] =>
  Array.isArray(value) ? value.flatMap(nodesOf) : isNode(value) ? [value, ...Object.values(value).flatMap(nodesOf)] : []

/** `file:line: text` of each shown string of a source. */
function textsIn(file: string, source: string): string[] {
  const { program, errors } = parseSync(file, source)
  expect(errors, file).toEqual([])
  return nodesOf(program)
    .flatMap(shownBy)
    .map(({ start, value }) => {
      const line = source.slice(0, start).split('\n').length
      return `${file}:${line}: ${String(value.cooked ?? value).trim()}`
    })
}

test('the check finds a text between tags, in an attribute, in a branch, and in a template', () => {
  const source = `const view = <p title="Title" className="none" aria-label={isOpen ? 'Close' : text.open}>
    Between <b>{count === 1 ? 'one' : many}</b>{\`\${count} rows\`}{' · '}
  </p>
  const action = { title: 'Restore…', name: 'tenants.restore' }`
  const found = textsIn('sample.tsx', source).map((one) => one.replace(/^sample\.tsx:\d+: /, ''))
  expect(found.toSorted()).toEqual(['Between', 'Close', 'Restore…', 'Title', 'one', 'rows'])
})

test('no source of the console shows a text that is not in a file text.ts', () => {
  expect(FILES.length).toBeGreaterThan(150)
  expect(FILES.flatMap((file) => textsIn(file, readFileSync(join(SOURCE, file), 'utf8')))).toEqual([])
})
