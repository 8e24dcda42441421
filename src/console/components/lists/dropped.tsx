/** Names the members of the address that are not applied, each with a button that removes it. */
import type { OperationName } from '../../api/contract.ts'
import { useDroppedSearch, useSetSearch } from '../../routing/router.tsx'
import { Button } from '../base/button.tsx'
import { text } from '../base/text.ts'
import { shortened } from '../base/value-text.ts'
import { ActiveFilters, without } from './filters.tsx'

const MAX_SHOWN = 20
const MAX_LENGTH = 80

/** The live region exists before its text. */
export function Dropped({ search }: { search: OperationName }) {
  const dropped = useDroppedSearch(search)
  const setSearch = useSetSearch()
  const remove = (keys: readonly string[]) => setSearch(without(keys))
  return (
    <div role="status">
      {dropped.length > 0 && (
        <div className="dropped">
          <p>{text.dropped}</p>
          <ActiveFilters
            label={text.droppedList}
            filters={dropped.slice(0, MAX_SHOWN).map(([key, value]) => ({
              key,
              label: shortened(key, MAX_LENGTH),
              value: shortened(value, MAX_LENGTH),
            }))}
            onRemove={remove}
          />
          {dropped.length > MAX_SHOWN && <p>{text.moreDropped(dropped.length - MAX_SHOWN)}</p>}
          {dropped.length > 1 && <Button onClick={() => remove(dropped.map(([key]) => key))}>{text.removeAll}</Button>}
        </div>
      )}
    </div>
  )
}
