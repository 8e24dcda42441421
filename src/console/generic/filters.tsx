/** The query of a read, from the address: a field for each member. */
import type { OperationName } from '../api/contract.ts'
import { FilterSelect } from '../components/lists/filters.tsx'
import { useParams, useSearch, useSetSearch } from '../routing/router.tsx'
import { filtersOf, type HostOperation, paramsOf } from './operation.ts'
import { titleOf } from './pages.ts'
import { text } from './text.ts'

const BOOLEANS = ['true', 'false']

/** The input of a read, and the names of required members that the address lacks. */
export function useRead(read: HostOperation) {
  const given = useParams()
  const search = useSearch(read.name as OperationName) as Readonly<Record<string, unknown>>
  const filters = Object.entries(filtersOf(read))
  const query = Object.fromEntries(filters.flatMap(([name]) => (name in search ? [[name, search[name]]] : [])))
  const params = Object.fromEntries(paramsOf(read).map((name) => [name, given[name] ?? '']))
  const missing = filters.flatMap(([name, { required }]) => (required && !(name in search) ? [titleOf(name)] : []))
  return { input: { params, query }, missing }
}

export function Filters({ read, missing }: { read: HostOperation; missing: readonly string[] }) {
  const search = useSearch(read.name as OperationName) as Readonly<Record<string, unknown>>
  const setSearch = useSetSearch()
  const filters = Object.entries(filtersOf(read))
  if (filters.length === 0) return null
  return (
    <>
      <div className="toolbar">
        {filters.map(([name, rule]) => {
          const value = search[name] === undefined ? undefined : String(search[name])
          const options = rule.enum ?? (rule.type === 'boolean' ? BOOLEANS : undefined)
          return options ? (
            <FilterSelect
              key={name}
              label={titleOf(name)}
              all={text.any}
              value={value}
              options={options.map((one) => [String(one), titleOf(String(one))] as const)}
              onChange={(chosen) => setSearch({ [name]: chosen })}
            />
          ) : (
            <FilterText
              key={`${name} ${value}`}
              label={titleOf(name)}
              value={value}
              isNumber={rule.type === 'integer' || rule.type === 'number'}
              onChange={(entered) => setSearch({ [name]: entered })}
            />
          )
        })}
      </div>
      {missing.length > 0 && <p className="lead">{text.needed(missing)}</p>}
    </>
  )
}

interface FilterTextProps {
  readonly label: string
  readonly value: string | undefined
  readonly isNumber: boolean
  readonly onChange: (value: string | undefined) => void
}

/** Applied by `Enter`, or when the field is left. */
const FilterText = ({ label, value, isNumber, onChange }: FilterTextProps) => (
  <label className="filter">
    <span>{label}</span>
    <input
      type={isNumber ? 'number' : 'text'}
      step="any"
      defaultValue={value}
      autoComplete="off"
      onBlur={({ target }) => target.value !== (value ?? '') && onChange(target.value || undefined)}
      onKeyDown={({ key, currentTarget }) => key === 'Enter' && onChange(currentTarget.value || undefined)}
    />
  </label>
)
