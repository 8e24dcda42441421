/** Names the members of the address that are not applied, each with a button that removes it. */
import type { OperationName } from '../../api/contract.ts'
import { useDroppedSearch, useSetSearch } from '../../routing/router.tsx'
import { text } from '../base/text.ts'
import { ActiveFilters, without } from './filters.tsx'

const MAX_SHOWN = 80

const shortened = (value: string): string => (value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value)

/** The live region exists before its text. */
export function Dropped({ search }: { search: OperationName }) {
  const dropped = useDroppedSearch(search)
  const setSearch = useSetSearch()
  return (
    <div role="status">
      {dropped.length > 0 && (
        <div className="dropped">
          <p>{text.dropped}</p>
          <ActiveFilters
            label={text.droppedList}
            filters={dropped.map(([key, value]) => ({ key, label: shortened(key), value: shortened(value) }))}
            onRemove={(keys) => setSearch(without(keys))}
          />
        </div>
      )}
    </div>
  )
}
