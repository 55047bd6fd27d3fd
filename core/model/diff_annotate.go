// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Annotate adds to the diff what the scheduler would do.
func (d *JobDiff) Annotate(a *PlanAnnotations) {
	for _, g := range d.TaskGroups {
		var desired *DesiredUpdates
		if a != nil {
			desired = a.DesiredTGUpdates[g.Name]
		}
		g.annotate(desired)
	}
}

func (g *TaskGroupDiff) annotate(desired *DesiredUpdates) {
	if desired != nil {
		g.Updates = map[string]uint64{}
		for _, u := range []struct {
			name string
			n    uint64
		}{
			{"ignore", desired.Ignore}, {"create", desired.Place}, {"migrate", desired.Migrate}, {"destroy", desired.Stop},
			{"in-place update", desired.InPlaceUpdate}, {"create/destroy update", desired.DestructiveUpdate},
			{"canary", desired.Canary}, {"preemptions", desired.Preemptions},
		} {
			if u.n > 0 {
				g.Updates[u.name] = u.n
			}
		}
	}
	for _, f := range g.Fields {
		if f.Name == "Count" {
			f.annotateCount(g.Type)
		}
	}
	for _, t := range g.Tasks {
		t.annotate(desired)
	}
}

func (f *FieldDiff) annotateCount(group DiffType) {
	grows := len(f.New) > len(f.Old) || len(f.New) == len(f.Old) && f.New > f.Old
	switch {
	case group == DiffTypeAdded || grows:
		f.Annotations = append(f.Annotations, "forces create")
	default:
		f.Annotations = append(f.Annotations, "forces destroy")
	}
}

func (t *TaskDiff) annotate(desired *DesiredUpdates) {
	text := ""
	switch {
	case t.Type == DiffTypeNone:
		return
	case t.Type == DiffTypeAdded:
		text = "forces create"
	case t.Type == DiffTypeDeleted:
		text = "forces destroy"
	case desired != nil && desired.InPlaceUpdate > 0 && desired.DestructiveUpdate == 0:
		text = "forces in-place update"
	case t.Type == DiffTypeEdited:
		text = "forces create/destroy update"
	default:
		return
	}
	t.Annotations = append(t.Annotations, text)
}
