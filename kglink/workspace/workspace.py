"""`Workspace`: everything that kglink does, as methods of one object."""

from __future__ import annotations

from kglink.workspace.discover import discover, discovered, judge_discovery, promote
from kglink.workspace.doctor import doctor, licences, plugins
from kglink.workspace.entities import add_entity, entities, entity, remove_entity, vector, vectors
from kglink.workspace.evaluate import (
    evaluate,
    evaluate_clusters,
    evaluate_end_to_end,
    evaluate_errors,
    evaluate_overlaps,
    overlap_significance,
    write_candidates,
)
from kglink.workspace.index import change_index, index_presets, is_index_asked, measure_index
from kglink.workspace.kbs import add_kb, export, kb, kbs, remove_kb
from kglink.workspace.link import explain, link, search
from kglink.workspace.memory import (
    correct,
    corrections,
    fit,
    fit_clusterer,
    fit_scoring,
    forget,
    kept_clusterer_choice,
    learn,
    take_back,
)
from kglink.workspace.opened import Opened
from kglink.workspace.overlaps import (
    compare_overlaps,
    export_overlaps,
    find_overlaps,
    import_overlaps,
    overlaps,
    review_overlaps,
    reviewed_overlaps,
    train_overlap_model,
)
from kglink.workspace.report import report
from kglink.workspace.resolve import resolve
from kglink.workspace.review import review_links
from kglink.workspace.spaces import (
    build,
    build_if_stale,
    compare_recalls,
    compare_spaces,
    delete_space,
    space_summary,
    spaces,
)
from kglink.workspace.texts import texts
from kglink.workspace.training import (
    check_run_deletable,
    delete_run,
    distill,
    export_model,
    finetune,
    recipe,
    recipes,
    run,
    runs,
)


class Workspace(Opened):
    """A workspace folder, opened: each verb of the command line is a method."""

    # KBs
    add_kb = add_kb
    kbs = kbs
    kb = kb
    export = export
    remove_kb = remove_kb
    # entities
    entities = entities
    entity = entity
    add_entity = add_entity
    remove_entity = remove_entity
    vector = vector
    vectors = vectors
    # overlaps
    find_overlaps = find_overlaps
    overlaps = overlaps
    review_overlaps = review_overlaps
    reviewed_overlaps = reviewed_overlaps
    train_overlap_model = train_overlap_model
    export_overlaps = export_overlaps
    import_overlaps = import_overlaps
    compare_overlaps = compare_overlaps
    # spaces
    build = build
    build_if_stale = build_if_stale
    spaces = spaces
    space_summary = space_summary
    compare_spaces = compare_spaces
    compare_recalls = compare_recalls
    delete_space = delete_space
    index_presets = index_presets
    change_index = change_index
    measure_index = measure_index
    is_index_asked = is_index_asked
    distill = distill
    export_model = export_model
    # fine-tuning
    finetune = finetune
    runs = runs
    run = run
    check_run_deletable = check_run_deletable
    delete_run = delete_run
    recipes = recipes
    recipe = recipe
    report = report
    # texts
    texts = texts
    link = link
    explain = explain
    search = search
    resolve = resolve
    discover = discover
    discovered = discovered
    judge_discovery = judge_discovery
    promote = promote
    correct = correct
    corrections = corrections
    take_back = take_back
    review_links = review_links
    learn = learn
    forget = forget
    fit = fit
    fit_scoring = fit_scoring
    fit_clusterer = fit_clusterer
    kept_clusterer_choice = kept_clusterer_choice
    write_candidates = write_candidates
    evaluate = evaluate
    evaluate_end_to_end = evaluate_end_to_end
    evaluate_errors = evaluate_errors
    evaluate_clusters = evaluate_clusters
    evaluate_overlaps = evaluate_overlaps
    overlap_significance = overlap_significance
    # the machine, and what is installed
    doctor = doctor
    licences = licences
    plugins = plugins
